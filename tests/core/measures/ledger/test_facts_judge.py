"""What a judge of patients is shown of a conversation, and what is taken of its answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.agents.ledger_models import PatientVerdict
from core.asking.parts import Part
from core.case import Case
from core.jobs.judges import facts_in, facts_pack, facts_request
from core.text.facts import facts_of
from tests.core.measures.ledger.hand_marked import talk

CASE = Case(
    case_key="t/1",
    dataset="t",
    specialty="Cardiology",
    answer="Pericarditis",
    vignette="A 40-year-old woman has chest pain. She takes metformin. The lungs are clear on auscultation.",
)
TALK = talk(
    "What brings you in?",
    "My chest hurts.",
    "Do you take any medicines?",
    "No, I don’t take   anything.",
    "Any pain in the knee?",
    "Yes, my left knee has hurt for years.",
    "**Final Diagnosis:** Angina",
)
FACTS = facts_of(CASE)
METFORMIN = "takes-metformin"
WITHHELD = PatientVerdict("withheld", 3, "Do you take any medicines?", METFORMIN, "takes metformin")
INVENTED = PatientVerdict("invented", 5, "my left knee has hurt for years")


def reply(withheld: list[Any] | None = None, invented: list[Any] | None = None) -> str:
    return json.dumps({"withheld": withheld or [], "invented": invented or []})


def kept_back(fact: str = METFORMIN, turn: Any = 3, question: str = "Do you take any medicines?") -> dict[str, Any]:
    return {"fact": fact, "turn": turn, "question": question}


def made_up(turn: Any = 5, words: str = "my left knee has hurt for years", contradicts: Any = None) -> dict[str, Any]:
    return {"turn": turn, "words": words, "contradicts": contradicts}


def test_it_is_shown_the_case_facts_with_ids_and_numbered_messages_and_never_the_diagnosis() -> None:
    (part,) = facts_request(facts_pack(), CASE, FACTS, TALK).messages
    assert isinstance(part, Part)
    prompt = part.content
    assert CASE.vignette in prompt
    assert f"\n{METFORMIN}: takes metformin\n" in prompt
    assert "\n[5] Patient: Yes, my left knee has hurt for years.\n" in prompt
    assert "\n[4] Doctor: Any pain in the knee?\n" in prompt
    assert "Angina" not in prompt
    assert "Pericarditis" not in prompt
    assert not any(f"\n{fact.id}: " in prompt for fact in FACTS if not fact.told), "these a patient cannot withhold"


@pytest.mark.parametrize(
    ("text", "verdicts"),
    [
        (reply([kept_back()], [made_up()]), (WITHHELD, INVENTED)),
        (f"Fact by fact {{so}}:\n```json\n{reply([kept_back()])}\n```", (WITHHELD,)),
        (f"First {reply(None, [made_up()])}, but rather {reply([kept_back()])}", (WITHHELD,)),
        (reply([kept_back(turn="3")]), (WITHHELD,)),
        (reply([kept_back(question=" do you take ANY medicines?… ")]), (WITHHELD,)),
        (reply([kept_back(), kept_back()]), (WITHHELD,)),
        (
            reply(None, [made_up(words="“Yes, my left knee has hurt for years.”")]),
            (PatientVerdict("invented", 5, "Yes, my left knee has hurt for years"),),
        ),
        (
            reply(None, [made_up(3, "No, I don't take anything", METFORMIN)]),
            (PatientVerdict("invented", 3, "No, I don’t take   anything", METFORMIN, "takes metformin"),),
        ),
        (reply(None, [made_up(contradicts="no such fact")]), (INVENTED,)),
        (reply(), ()),
    ],
)
def test_verdicts_are_read_with_anything_around_them(text: str, verdicts: tuple[PatientVerdict, ...]) -> None:
    found = facts_in(text, FACTS, TALK)
    assert (found.things, found.dropped) == (verdicts, 0)


@pytest.mark.parametrize(
    "bad",
    [
        {"withheld": [kept_back(question="Do you take any tablets?")]},  # nobody asked that
        {"withheld": [kept_back(question="What brings you in?")]},  # not the question before that reply
        {"withheld": [kept_back(fact="smokes")]},  # no such fact
        {"withheld": [kept_back(fact=next(fact.id for fact in FACTS if not fact.told))]},  # not the patient's to tell
        {"withheld": [kept_back(turn=2)]},  # the doctor's message
        {"withheld": [kept_back(question=" ? ")]},
        {"invented": [made_up(words="my right knee has hurt")]},
        {"invented": [made_up(words="left knee has hur")]},  # half a word
        {"invented": [made_up(turn=3)]},  # in another reply
        {"invented": [made_up(turn=4, words="Any pain in the knee?")]},  # the doctor's words
        {"invented": [made_up(turn=-2)]},
        {"invented": [made_up(turn=99)]},
        {"invented": [made_up(words="“s”")]},  # quotes nothing
    ],
)
def test_what_does_not_stand_in_the_conversation_is_dropped_and_counted(bad: dict[str, Any]) -> None:
    held = {"withheld": [kept_back()], "invented": [made_up()]}
    found = facts_in(json.dumps({name: [*held[name], *bad.get(name, [])] for name in held}), FACTS, TALK)
    assert (found.things, found.dropped) == ((WITHHELD, INVENTED), 1)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("Nothing was withheld.", "no JSON object"),
        ('{"withheld": []}', "invented"),
        ('{"withheld": [], "invented": null}', "invented"),
        ('{"withheld": [{"fact": "x", "turn": "third", "question": "y"}], "invented": []}', "turn"),
        ('{"withheld": [], "invented": [', "no JSON object"),
    ],
)
def test_what_has_not_the_form_is_unreadable_and_not_nothing_found(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        facts_in(text, FACTS, TALK)
