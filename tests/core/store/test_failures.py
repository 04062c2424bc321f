"""Wrong answers, beliefs, dialogues and cases are read from the database as they were stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.asking.scene import Turn
from core.events import Graded, Probed
from core.measures.belief import BELIEFS
from core.measures.measuring import measure_trials
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.answers import WrongAnswer, wrong_answers
from core.store.queries.cases import cases_of
from core.store.queries.probes import probes_of_trials
from core.store.queries.scores import series_of_trials
from core.store.queries.utterances import dialogues
from core.store.selection import McqRule, Selection
from tests.core.store.builders import (
    Ended,
    Finished,
    Utterance,
    a_case,
    a_header,
    a_stream,
    a_trial,
    answered,
    graded,
    grades,
    invalid,
    write_journal,
)
from tests.support.stores import copy_of, shared


def both_rules(loose: str, strict: str, format_: str = "multi_turn") -> list[Graded]:
    fields = {"grader": "rule", "extracted": None}
    return [graded(loose, format_, "mcq", **fields), graded(strict, format_, "mcq", rule="mcq_strict", **fields)]  # type: ignore[arg-type]


CONVERSATION = [
    Utterance(turn=0, role="doctor", text="Hello?"),
    Utterance(turn=1, role="patient", text="A rash."),
    Probed(turn=1, differential=(("Gout", 0.6), ("Eczema", 0.3))),
    Ended(reason="turn_cap", doctor_turns=1),
]


def fill(store: Store) -> None:
    """Case 1: wrong in conversation and right on the vignette; then right. Case 2: failed, graded again, two rules."""
    cases = [a_case(1), a_case(2, specialty="Cardiology")]
    first = [
        *CONVERSATION,
        answered(),
        graded("incorrect"),
        answered("vignette"),
        graded("correct", "vignette"),
        Finished(at=9.0),
    ]
    second = [answered(), graded("correct"), Finished(at=9.0)]
    third = [
        invalid("provider_error"),
        answered("multi_turn", "mcq"),
        *both_rules("incorrect", "correct"),
        answered("vignette", "mcq"),
        *both_rules("correct", "multiple", "vignette"),
        answered("vignette"),
        graded("correct", "vignette", at=10.0),
        Finished(at=9.0),
    ]
    write_journal(
        store.journals,
        "run",
        a_header(cases=cases),
        a_trial(first, trial_id="a"),
        a_trial(second, trial_id="b", trial=1),
        a_trial(third, trial_id="c", case_key="ours/2"),
        grades("c", graded("incorrect", "vignette", grader="openai/h", at=20.0)),
    )
    live = a_header("live", cases=cases, doctor="openai/live", source="live")
    write_journal(store.journals, "live", live, a_trial(a_stream("l"), trial_id="l", run_id="live"))
    fold(store)


@pytest.fixture
def filled(tmp_path: Path) -> Store:
    return copy_of(fill, tmp_path)


@pytest.fixture
def unchanged() -> Store:
    return shared(fill)


def read(store: Store, rule: McqRule = "mcq_loose", **selection: object) -> dict[tuple[str, str, str], WrongAnswer]:
    with store.read() as cursor:
        answers = wrong_answers(cursor, Selection(**selection), rule)  # type: ignore[arg-type]
    assert len({(a.trial_id, a.format, a.question_type) for a in answers}) == len(answers), "each answer once"
    return {(a.trial_id, a.format, a.question_type): a for a in answers}


def test_wrong_and_broken_answers_and_no_others(unchanged: Store) -> None:
    answers = read(unchanged)
    assert set(answers) == {
        ("a", "multi_turn", "frq"),
        ("c", "multi_turn", "frq"),
        ("c", "multi_turn", "mcq"),
        ("c", "vignette", "frq"),
    }
    plain = answers["a", "multi_turn", "frq"]
    assert (plain.model, plain.case, plain.verdict, plain.rule) == (
        "openai/a",
        ("ours/1", a_case(1).content_hash),
        "incorrect",
        "frq",
    )
    assert (plain.grader, plain.extracted, plain.response, plain.end_reason) == (
        "openai/g",
        "eczema",
        "Eczema",
        "turn_cap",
    )
    assert (plain.on_vignette, plain.called_correct, plain.counted) == ("correct", (), True)
    broken = answers["c", "multi_turn", "frq"]
    assert (broken.verdict, broken.counted, broken.response) == ("provider_error", False, None)


def test_a_wrong_answer_lists_the_rules_and_graders_that_called_it_correct(unchanged: Store) -> None:
    answers = read(unchanged)
    assert answers["c", "vignette", "frq"].called_correct == (("frq", "openai/g"),)
    assert answers["c", "multi_turn", "mcq"].called_correct == (("mcq_strict", "rule"),)
    assert answers["c", "multi_turn", "mcq"].on_vignette == "correct"


def test_the_chosen_rule_decides_which_answers_are_wrong(unchanged: Store) -> None:
    answers = read(unchanged, "mcq_strict")
    assert ("c", "multi_turn", "mcq") not in answers
    assert answers["c", "vignette", "mcq"].called_correct == (("mcq_loose", "rule"),)


@pytest.mark.slow
def test_a_selection_restricts(unchanged: Store) -> None:
    assert {key[0] for key in read(unchanged, specialties=["Cardiology"])} == {"c"}
    assert {key[1] for key in read(unchanged, formats=["vignette"])} == {"vignette"}
    assert not read(unchanged, models=["openai/other"])
    assert {key[0] for key in read(unchanged, runs=["live"])} == {"l"}


def test_a_trial_that_broke_off_is_a_failure_in_every_missing_arm(store: Store) -> None:
    write_journal(store.journals, "run", a_header(cases=[a_case(1)]), a_trial(CONVERSATION, trial_id="cut"))
    fold(store)
    assert {key[1:]: a.verdict for key, a in read(store).items()} == {
        ("vignette", "mcq"): "provider_error",
        ("multi_turn", "frq"): "provider_error",
    }


def test_beliefs_of_campaigns(filled: Store) -> None:
    measure_trials(filled, [BELIEFS])
    with filled.read() as cursor:
        series = series_of_trials(cursor, BELIEFS)
        live = series_of_trials(cursor, BELIEFS, Selection(runs=["live"]))
        assert not series_of_trials(cursor, BELIEFS, Selection(models=["openai/none"]))
        assert probes_of_trials(cursor, ["a", "b", "nothing"]) == {
            "a": (Probed(turn=1, differential=(("Gout", 0.6), ("Eczema", 0.3))),)
        }
    assert series == [("openai/a", "ours/1", {"right": [0.3], "leading": [0.6], "leads": [0.0]})]
    assert len(live) == 1


def test_dialogues_and_cases_are_those_of_the_trials(filled: Store) -> None:
    old, new = a_case(1), a_case(1, vignette="Another text.")
    write_journal(filled.journals, "later", a_header("later", cases=[new]))
    fold(filled)
    with filled.read() as cursor:
        assert dialogues(cursor, ["a", "b", "x"]) == {"a": (Turn("doctor", "Hello?"), Turn("patient", "A rash."))}
        keys = [("ours/1", old.content_hash), ("ours/1", new.content_hash), ("ours/1", None), ("ours/7", None)]
        cases = cases_of(cursor, keys)
    assert cases == {keys[0]: old, keys[1]: new, keys[2]: new}
