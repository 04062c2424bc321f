"""The functions of frameworks that pages use: options, kinds of players, recognition of conversations."""

from __future__ import annotations

import pytest

from core.errors import UsageError
from core.events import Assessed, Started, Utterance
from core.frameworks.automedic.tags import EMPATHY
from core.frameworks.base import framework, framework_of, frameworks, options_for, publisher
from core.frameworks.seats import kinds_in_words


@pytest.mark.parametrize(
    ("name", "tested", "options"),
    [
        ("craftmd", "reference/bayes", {"max_messages", "persona"}),
        ("craftmd", "openai/a", {"max_messages", "persona", "probe", "temperature", "max_tokens"}),
        ("consultation", "human", {"max_questions"}),
        ("consultation", "openai/a", {"max_questions", "doctor_prompt", "temperature", "max_tokens"}),
        ("consultation", "reference/oracle-direct", set()),
        ("consultation", "reference/upper-bound", set()),
        ("automedic", "reference/bayes", {"max_turns"}),
    ],
)
def test_only_options_that_apply_to_the_tested_model_are_offered(name: str, tested: str, options: set[str]) -> None:
    assert set(options_for(framework(name), tested)) == options


def test_the_framework_is_recognised_by_the_name_then_by_the_first_event_then_by_other_events() -> None:
    begun = Started(trial_id="t", case_key="a/1", trial=0, seed=1, framework="consultation")
    assert framework_of([begun], "automedic") is framework("automedic")
    assert framework_of([begun]) is framework("consultation")
    assert framework_of([Assessed(name=EMPATHY, most=5, by="a", value=4, words="Kind.")]) is framework("automedic")
    assert framework_of([Utterance(turn=0, role="doctor", text="Hello")]) is None
    assert framework_of([], "unknown") is None


def test_every_player_by_rules_has_a_label() -> None:
    words = kinds_in_words()
    assert {kind for protocol in frameworks().values() for seat in protocol.seats for kind in seat.rules} == set(words)
    assert words["reference/staff"] == "Reference clinical staff (rules, no model)"
    assert words["reference/oracle-random"].partition(":")[0] == "Oracle, random order"


def test_published_figures_have_one_framework() -> None:
    assert [publisher(measure).name for measure in ("accuracy", "experts", "history", "care")] == [
        "craftmd",
        "craftmd",
        "consultation",
        "automedic",
    ]
    with pytest.raises(UsageError, match="published figures of taste"):
        publisher("taste")
