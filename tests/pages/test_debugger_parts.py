"""What the Case debugger is made of: places, marks, differences, facts, beliefs and causes."""

from __future__ import annotations

import pandas as pd

from core.case import Case, Fact, Profile
from core.debugger.diff import word_diff
from core.debugger.run import MatrixCell, matrix
from core.events import Ended, Event, Probed, Started, Utterance
from core.judging.judgement import Judge
from core.measures.attribution import attribution_of, wrong_in
from core.measures.belief import trajectory
from core.measures.ledger import outcomes_of
from core.store.queries.judged_facts import JudgedPatient, PatientVerdict
from core.text.facts import facts_of
from pages.debugger.matrix import address_of, cells_frame, matrix_frame
from pages.kit.case.facts import facts_from, facts_table
from pages.kit.case.why import belief_chart, belief_frame, belief_sentences
from pages.kit.texts import one_side
from tests.core.store.builders import answered, graded, invalid

CASE = Case(
    case_key="ours/1",
    dataset="ours",
    specialty="Cardiology",
    vignette="A man with chest pain since Monday.",
    answer="Acute pericarditis",
    choices=("Acute pericarditis", "Stable angina"),
    profile=Profile(
        basic=(
            Fact(key="pain", value="chest pain for two days", lay="My chest has hurt for two days."),
            Fact(key="smoking", value="smokes a pack a day", lay="I smoke a pack a day."),
        ),
        optional=(Fact(key="pulse", value="96/min", lay="fast", section="vital_signs"),),
    ),
)


def conversation(*messages: str) -> list[Event]:
    events: list[Event] = [Started(trial_id="t", case_key="ours/1", trial=0, seed=1)]
    for turn, text in enumerate(messages):
        events.append(Utterance(turn=turn, role="patient" if turn % 2 else "doctor", text=text))
    return [*events, Ended(reason="final_diagnosis", doctor_turns=1)]


SHORT = conversation(
    "Hello, what brings you in?", "My chest has hurt for two days.", "**Final Diagnosis:** Stable angina"
)


def test_a_cell_stands_in_the_address_with_its_trial_counted_from_one() -> None:
    assert address_of(MatrixCell("multi_turn", "frq", 2)) == "3:multi_turn:frq"


def test_the_matrix_counts_what_counts_and_says_what_is_missing() -> None:
    first = [answered(), graded("correct"), invalid("provider_error", "vignette", "frq")]
    second = [answered(), graded("incorrect"), answered("vignette", "frq")]
    rows = matrix({0: first, 1: second, 2: []}, [("vignette", "frq"), ("multi_turn", "frq")])
    frame = matrix_frame(rows, "mcq_loose")
    assert list(frame.columns) == ["Format", "Question", "Trial 1", "Trial 2", "Trial 3", "Correct"]
    assert list(frame.iloc[0]) == ["Vignette", "Free response", "– Provider error", "… Grading", "·", "–"]
    assert list(frame.iloc[1]) == ["Multi-turn", "Free response", "✓ Correct", "✗ Incorrect", "·", "1 of 2"]
    cells = cells_frame(rows)
    assert len(cells) == 6
    assert list(cells["frq"].dropna()) == ["correct", "incorrect"]
    assert list(cells["reason"].dropna()) == ["provider_error"]


def test_a_difference_is_marked_on_its_side_and_stays_a_text() -> None:
    pieces = word_diff("Take <b>two</b>  pills", "Take <b>three</b>  pills & rest")
    before, after = one_side(pieces, "delete"), one_side(pieces, "insert")
    assert "line-through" in before
    assert ">two</del>" in before
    assert "three" not in before
    assert "underline" in after
    assert ">three</ins>" in after
    assert "two" not in after
    for drawn in (before, after):
        assert "<b>" not in drawn
        assert "&lt;b&gt;" in drawn
        assert "  pills" in drawn  # white space is kept, and shown by the style
    assert "white-space: pre-wrap" in before
    hostile = word_diff("", '"><img src=x onerror=alert(1)><script>alert(2)</script>')
    assert "<img" not in one_side(hostile, "insert")
    assert "<script" not in one_side(hostile, "insert")


PAIN, SMOKING, PULSE = facts_of(CASE)
JUDGED = JudgedPatient(
    "run/1",
    Judge("openai/j", "model", "p1", 0),
    (
        PatientVerdict("asked", 1, "My chest has hurt", PAIN.id, PAIN.text, PAIN.topic),
        PatientVerdict("never_asked", None, "", SMOKING.id, SMOKING.text, SMOKING.topic),
    ),
)


def test_facts_carry_the_marks_of_a_judge_or_none() -> None:
    outcomes = outcomes_of(facts_of(CASE), JUDGED)
    assert [(outcome.status, [q.message for q in outcome.quotations]) for outcome in outcomes] == [
        ("asked", [1]),
        ("never_asked", []),
    ]
    assert {outcome.status for outcome in outcomes_of(facts_of(CASE), None)} == {"unjudged"}
    assert JUDGED.told_by(3) == [0.0, 0.5, 0.5]


def test_edited_facts_keep_their_ids_and_new_ones_get_their_own() -> None:
    facts = facts_of(CASE)
    table = facts_table(facts)
    table.loc[0, "Fact"] = "chest pain for a week"
    added = {"Fact": "sister with lupus", "Topic": "family history", "Patient can tell": True}
    table = pd.concat([table, pd.DataFrame([added, {"Fact": "  "}])], ignore_index=True)
    edited = facts_from(table)
    assert [fact.id for fact in edited] == [*(fact.id for fact in facts), "sister-with-lupus"]
    assert edited[0].text == "chest pain for a week"
    assert edited[0].lay == facts[0].lay
    assert (edited[3].lay, edited[3].told, edited[3].topic) == ("sister with lupus", True, "family history")


def test_belief_is_told_in_sentences_and_the_right_names_are_one_curve() -> None:
    probes = [
        Probed(turn=1, differential=(("Stable angina", 0.6), ("Acute pericarditis", 0.3))),
        Probed(turn=3, differential=(("Acute pericarditis", 0.7), ("Stable angina", 0.2))),
    ]
    sentences = belief_sentences(trajectory(CASE, probes, "final_diagnosis", 2))
    assert sentences[0] == "The right diagnosis led for the first time after message 4."
    assert not any("Premature" in sentence for sentence in sentences)
    curves = {curve.name: (list(curve.x), list(curve.y)) for curve in belief_chart(CASE, probes).data}
    assert curves == {"The right diagnosis": ([2, 4], [0.3, 0.7]), "Stable angina": ([2, 4], [0.6, 0.2])}
    assert list(belief_frame(probes)["rank"]) == [1, 2, 1, 2]
    wrong = belief_sentences(trajectory(CASE, probes[:1], "final_diagnosis", 2))
    assert wrong[0] == "The right diagnosis never led."
    assert any("Premature closure" in sentence for sentence in wrong)


def test_a_wrong_answer_is_put_down_to_a_cause_by_what_happened_in_its_trial() -> None:
    right_on_vignette = [answered("vignette"), graded("correct", "vignette")]
    wrong = [answered(response="Stable angina"), graded("incorrect", extracted="Stable angina")]
    (answer,) = wrong_in([*SHORT, *right_on_vignette, *wrong])
    assert answer.on_vignette == "correct"
    open_ = attribution_of(CASE, [*SHORT, *right_on_vignette, *wrong], answer, None)
    assert (open_.cause, open_.turn) == ("not_judged", 2)
    wrong_on_vignette = [answered("vignette"), graded("incorrect", "vignette")]
    (answer, _) = wrong_in([*SHORT, *wrong, *wrong_on_vignette])
    own = attribution_of(CASE, [*SHORT, *wrong, *wrong_on_vignette], answer, None)
    assert (own.cause, own.turn) == ("doctor_concluded_wrongly", 2)
    broken = [*SHORT, invalid("provider_error")]
    assert attribution_of(CASE, broken, wrong_in(broken)[0], None).cause == "provider"


def test_the_newest_verdict_counts_and_a_disputed_one_is_the_graders() -> None:
    events = [*SHORT, answered(response="Stable angina"), graded("correct", at=1.0), graded("incorrect", at=2.0)]
    (answer,) = wrong_in(events)
    assert answer.called_correct == (("frq", "openai/g"),)
    assert attribution_of(CASE, events, answer, None).cause == "grader"
    assert wrong_in([*SHORT, answered(), graded("incorrect", at=1.0), graded("correct", at=2.0)]) == []
