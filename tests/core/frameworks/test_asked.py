"""What a framework says of its options, kinds and conversations, as pages ask it."""

from __future__ import annotations

import pytest

from core.errors import UsageError
from core.events import Assessed, Started, Utterance
from core.frameworks.automedic.tags import EMPATHY
from core.frameworks.base import framework, framework_of, frameworks, options_for, publisher
from core.frameworks.seats import kinds_in_words


@pytest.mark.parametrize(
    ("name", "tested", "asked"),
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
def test_only_options_that_mean_anything_beside_the_tested_are_asked(name: str, tested: str, asked: set[str]) -> None:
    assert set(options_for(framework(name), tested)) == asked


def test_a_conversation_is_known_by_its_runs_name_then_by_its_first_event_then_by_what_only_one_has() -> None:
    begun = Started(trial_id="t", case_key="a/1", trial=0, seed=1, framework="consultation")
    assert framework_of([begun], "automedic") is framework("automedic")
    assert framework_of([begun]) is framework("consultation")
    assert framework_of([Assessed(name=EMPATHY, most=5, by="a", value=4, words="Kind.")]) is framework("automedic")
    assert framework_of([Utterance(turn=0, role="doctor", text="Hello")]) is None
    assert framework_of([], "gone") is None


def test_every_kind_by_rule_has_words() -> None:
    words = kinds_in_words()
    assert {kind for one in frameworks().values() for seat in one.seats for kind in seat.rules} == set(words)
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
