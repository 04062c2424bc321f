"""The request to a judge of facts, and how its answer is read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.agents.ledger_models import PatientVerdict
from core.asking.parts import PromptPart
from core.asking.scene import Turn
from core.case import Case
from core.jobs.judges import facts_in, facts_pack, facts_request
from core.text.facts import facts_of

CASE = Case(
    case_key="t/1",
    dataset="t",
    specialty="Cardiology",
    answer="Pericarditis",
    vignette="A 40-year-old woman has chest pain. She takes metformin. The lungs are clear on auscultation.",
)
MESSAGES = (
    "What brings you in?",
    "My chest hurts.",
    "Do you take any medicines?",
    "No, I don’t take   anything.",
    "Any pain in the knee?",
    "Yes, my left knee has hurt for years.",
    "**Final Diagnosis:** Angina",
)
CONVERSATION = tuple(Turn("patient" if number % 2 else "doctor", text) for number, text in enumerate(MESSAGES))
FACTS = facts_of(CASE)
AGE, PAIN, METFORMIN, SIGN = (fact.id for fact in FACTS)
MARKS = {
    AGE: {"mark": "never_asked", "turn": None, "words": None},
    PAIN: {"mark": "asked", "turn": 1, "words": "My chest hurts"},
    METFORMIN: {"mark": "withheld", "turn": 3, "words": "Do you take any medicines?"},
}
VERDICTS = (
    PatientVerdict("never_asked", None, "", AGE, "40-year-old woman", "demographics"),
    PatientVerdict("asked", 1, "My chest hurts", PAIN, "chest pain", "chief complaint"),
    PatientVerdict("withheld", 3, "Do you take any medicines?", METFORMIN, "takes metformin", "medication"),
)
INVENTED = PatientVerdict("invented", 5, "my left knee has hurt for years")


def reply(changed: dict[str, dict[str, Any]] | None = None, invented: list[Any] | None = None) -> str:
    marks = {fact: {**mark, **(changed or {}).get(fact, {})} for fact, mark in MARKS.items()}
    return json.dumps({"facts": [{"id": fact, **mark} for fact, mark in marks.items()], "invented": invented or []})


def invention(turn: Any = 5, words: str = "my left knee has hurt for years", contradicts: Any = None) -> dict[str, Any]:
    return {"turn": turn, "words": words, "contradicts": contradicts}


def test_the_prompt_has_the_vignette_facts_and_messages_and_no_diagnosis() -> None:
    (part,) = facts_request(facts_pack(), CASE, FACTS, CONVERSATION).messages
    assert isinstance(part, PromptPart)
    prompt = part.content
    assert CASE.vignette in prompt
    assert f"\n{METFORMIN}: takes metformin\n" in prompt
    assert "\n[5] Patient: Yes, my left knee has hurt for years.\n" in prompt
    assert "\n[4] Doctor: Any pain in the knee?\n" in prompt
    assert "Angina" not in prompt
    assert "Pericarditis" not in prompt
    assert not any(f"\n{fact.id}: " in prompt for fact in FACTS if not fact.told), "a patient cannot withhold results"


def test_marks_are_read_from_an_answer_with_other_text(subtests: pytest.Subtests) -> None:
    rows: list[str] = [
        reply(),
        f"Fact by fact {{so}}:\n```json\n{reply()}\n```",
        f"First {reply({PAIN: {'mark': 'volunteered'}})}, but rather {reply()}",
        reply({METFORMIN: {"turn": "3"}}),
        reply({METFORMIN: {"words": " do you take ANY medicines?… "}}),
        reply({PAIN: {"words": "“My chest hurts.”"}}),
    ]
    for text in rows:
        with subtests.test(text=text):
            judgement = facts_in(text, FACTS, CONVERSATION)
            assert (judgement.dropped, [verdict.kind for verdict in judgement.things]) == (
                0,
                ["never_asked", "asked", "withheld"],
            )
            assert [verdict.words.strip(".") for verdict in judgement.things] == [verdict.words for verdict in VERDICTS]
            assert [(v.turn, v.fact, v.fact_text, v.topic) for v in judgement.things] == [
                (v.turn, v.fact, v.fact_text, v.topic) for v in VERDICTS
            ]


def test_inventions_are_read_with_what_they_contradict(subtests: pytest.Subtests) -> None:
    rows: list[tuple[dict[str, Any], PatientVerdict]] = [
        (invention(), INVENTED),
        (
            invention(words="“Yes, my left knee has hurt for years.”"),
            PatientVerdict("invented", 5, "Yes, my left knee has hurt for years"),
        ),
        (
            invention(3, "No, I don't take anything", METFORMIN),
            PatientVerdict("invented", 3, "No, I don’t take   anything", METFORMIN, "takes metformin"),
        ),
        (invention(contradicts="no such fact"), INVENTED),
    ]
    for invented, verdict in rows:
        with subtests.test(invented=invented, verdict=verdict):
            judgement = facts_in(reply(None, [invented, invented]), FACTS, CONVERSATION)
            assert (judgement.things, judgement.dropped) == ((*VERDICTS, verdict), 0)


def test_an_invention_that_is_not_in_the_conversation_is_dropped_and_counted(subtests: pytest.Subtests) -> None:
    rows: list[dict[str, Any]] = [
        invention(words="my right knee has hurt"),
        invention(words="left knee has hur"),  # half a word
        invention(turn=3),  # in another reply
        invention(turn=4, words="Any pain in the knee?"),  # the doctor's words
        invention(turn=-2),
        invention(turn=99),
        invention(words="“s”"),  # quotes nothing
    ]
    for bad in rows:
        with subtests.test(bad=bad):
            judgement = facts_in(reply(None, [invention(), bad]), FACTS, CONVERSATION)
            assert (judgement.things, judgement.dropped) == ((*VERDICTS, INVENTED), 1)


def test_marks_that_do_not_fit_the_conversation_are_refused(subtests: pytest.Subtests) -> None:
    rows: list[tuple[dict[str, dict[str, Any]], str]] = [
        ({METFORMIN: {"words": "Do you take any tablets?"}}, "do not stand in message 2"),  # no message has these words
        ({METFORMIN: {"words": "What brings you in?"}}, "do not stand in message 2"),  # an earlier question
        ({METFORMIN: {"turn": 2}}, "names no message of the patient"),  # the doctor's message
        ({METFORMIN: {"turn": None}}, "names no message of the patient"),
        ({METFORMIN: {"words": None}}, "do not stand in message 2"),
        ({PAIN: {"words": "a terrible pain"}}, "do not stand in message 1"),
        ({PAIN: {"turn": 3}}, "do not stand in message 3"),
        ({PAIN: {"turn": 99}}, "names no message of the patient"),
        ({PAIN: {"mark": "perhaps"}}, "mark"),
        ({PAIN: {"id": AGE}}, "does not mark every fact once"),
        ({PAIN: {"id": "smokes"}}, "does not mark every fact once"),
        ({PAIN: {"id": SIGN}}, "does not mark every fact once"),  # a result, which the patient does not know
    ]
    for changed, fault in rows:
        with subtests.test(changed=changed, fault=fault), pytest.raises(ValueError, match=fault):
            facts_in(reply(changed), FACTS, CONVERSATION)


def test_a_bare_no_counts_as_a_quotation_of_the_complete_message() -> None:
    conversation = (Turn("doctor", "Any medicines?"), Turn("patient", "No."))
    marks = {fact: {"mark": "asked", "turn": 1, "words": "No"} for fact in MARKS}
    assert {verdict.words for verdict in facts_in(reply(marks), FACTS, conversation).things} == {"No"}
    longer = (conversation[0], Turn("patient", "No, none."))
    with pytest.raises(ValueError, match="do not stand in message 1"):
        facts_in(reply(marks), FACTS, longer)


def test_an_answer_of_another_form_is_unreadable(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, str]] = [
        ("Nothing was withheld.", "no JSON object"),
        ('{"facts": []}', "invented"),
        ('{"facts": [], "invented": null}', "invented"),
        ('{"facts": [{"id": "x", "turn": "third", "mark": "asked"}], "invented": []}', "turn"),
        ('{"facts": [], "invented": [', "no JSON object"),
        ('{"facts": [], "invented": []}', "does not mark every fact once"),
    ]
    for text, fault in rows:
        with subtests.test(text=text, fault=fault), pytest.raises(ValueError, match=fault):
            facts_in(text, FACTS, CONVERSATION)


def test_the_prompt_requests_the_words_before_the_mark() -> None:
    (part,) = facts_request(facts_pack(), CASE, FACTS, CONVERSATION).messages
    assert isinstance(part, PromptPart)
    assert part.content.index('"words"') < part.content.index('"mark": "asked"')
