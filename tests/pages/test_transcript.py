"""What a transcript says of a conversation that the doctor opens or the patient opens, and where there was none."""

from __future__ import annotations

from core.events import Answered, Event, Utterance
from core.frameworks.base import framework

FIRST, SOLVED = framework(), framework("consultation")


def dialogue(*roles: str) -> list[Event]:
    return [Utterance(turn=turn, role=role, text="…") for turn, role in enumerate(roles)]


ANSWER = Answered(format="multi_turn", question_type="mcq", response="Eczema")
READ = Answered(format="vignette", question_type="mcq", response="Eczema")


def test_a_greeting_is_no_question_and_a_patients_opening_neither() -> None:
    assert FIRST.speech.questions(dialogue("doctor", "patient", "doctor", "patient", "doctor")) == 2
    assert SOLVED.speech.questions(dialogue("patient", "doctor", "patient", "doctor", "patient")) == 2
    assert SOLVED.speech.questions(dialogue("patient")) == 0
    assert FIRST.speech.questions([]) == 0


def test_the_solver_is_named_where_it_answers() -> None:
    assert FIRST.speech.answering([*dialogue("doctor", "patient", "doctor"), ANSWER]) == ""
    assert FIRST.speech.answering([READ]) == "", "a vignette is read without a conversation"
    assert "saw only this dialogue" in SOLVED.speech.answering([*dialogue("patient", "doctor"), ANSWER])
    assert "the whole case" in SOLVED.speech.answering([ANSWER])
