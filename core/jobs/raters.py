"""Requests in which a model fills in the form of a review, and the checks of their replies.

A request has questions with options (choices and scales), about one blinded item. Every answer about a conversation
needs a quotation: words of another message than the named one are repaired, and words of no message, or only of a
scripted first message, make the answer void. A missing answer, or one that is not among the options, is requested again
with the error.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import Any, NamedTuple

import orjson
from pydantic import BaseModel

from core.asking.ask import Request, quotation, read_json
from core.asking.parts import instruction_part
from core.errors import UsageError
from core.events import Event, Utterance
from core.frameworks.base import framework_of
from core.frameworks.speech import Speech
from core.judging.form import CANNOT_JUDGE, Form, FormQuestion
from core.prompts import PromptPack, load_pack
from core.reviews.items import BlindedItem
from core.store.queries.model_ratings import RatedQuotation

_PROMPT = "rate"
_PROFILE_PARTS = {
    "demographics": "Demographics",
    "basic": "Known to the patient",
    "optional": "Known to the staff only",
}
VOID = "the quoted words are in no message, or only in a scripted one"
"""Failure of an answer without a valid quotation."""


class RatedAnswer(NamedTuple):
    """A model's answer to a question; ``value`` is ``None`` if ``failure`` says why it is void."""

    question: str
    value: str | None
    quotations: tuple[RatedQuotation, ...] = ()
    reason: str = ""
    failure: str = ""


class _Answer(BaseModel):
    id: str
    message: int | None = None
    words: str | None = None
    reason: str = ""
    answer: str | int


class _Answers(BaseModel):
    answers: list[_Answer]


def rating_pack() -> PromptPack:
    """Load the prompt. It is a separate pack, so that a new wording does not change the prompts of runs."""
    return load_pack("ratings", (_PROMPT,))


def rated_questions(form: Form) -> tuple[FormQuestion, ...]:
    """Return the questions that a model answers: those with options."""
    return tuple(question for question in form.questions if question.values)


def rater_hash(pack: PromptPack, form: Form, questions: Sequence[FormQuestion]) -> str:
    """Return a hash of the prompt, the instruction and the questions of a request: another wording is another rater."""
    asked = orjson.dumps([question.model_dump() for question in questions])
    return hashlib.sha256(b"\0".join([pack.hash.encode(), form.instruction.encode(), asked])).hexdigest()[:12]


def rating_request(
    pack: PromptPack, form: Form, questions: Sequence[FormQuestion], item: BlindedItem
) -> Request[tuple[RatedAnswer, ...]]:
    """Return the request about one item; ``questions`` are those of the form, or some of them."""
    first = _numbered(item.dialogue)
    dialogues = [("The first consultation" if item.second else "The conversation", first)] if first else []
    if item.second:
        dialogues.append(("The second consultation", _numbered(item.second, len(first))))
    scripted = {start for start, is_scripted in zip((0, len(first)), item.scripted, strict=True) if is_scripted}
    numbered = [message for _, messages in dialogues for message in messages]
    quotable = {number: "" if number in scripted else text for number, _, text in numbered}
    values: dict[str, Any] = {
        "instruction": form.instruction,
        "material": _material(item),
        "dialogues": dialogues,
        "response": item.response or "",
        "questions": [_shown(question) for question in questions],
    }
    prompt = instruction_part(pack, _PROMPT, **values)
    return Request(_PROMPT, [prompt], "grader", "judge", lambda text: answers_in(text, questions, quotable))


def _numbered(dialogue: Sequence[Event], start: int = 0) -> list[tuple[int, str, str]]:
    """Return number, speaker and text of the messages, as annotators see them: without tags and reasoning."""
    framework = framework_of(dialogue)
    speech = framework.speech if framework else Speech()
    numbered: list[tuple[int, str, str]] = []
    for message in dialogue:
        if isinstance(message, Utterance):
            addressees = (part.to for part in speech.shown(message.role, message.text))
            speaker = ", ".join(filter(None, [message.role.capitalize(), *addressees]))
            spoken = speech.spoken(message.role, message.text)
            numbered.append((start + len(numbered), speaker, spoken or "(no words)"))
    return numbered


def _material(item: BlindedItem) -> list[tuple[str, str]]:
    """Return title and text of what annotators see of the case and of its profile."""
    parts = []
    if item.case is not None:
        lettered = zip(ascii_uppercase, item.case.choices, strict=False)
        parts = [
            ("The case", item.case.vignette),
            ("The question about it", item.case.question),
            ("Its choices", "\n".join(f"{letter}. {choice}" for letter, choice in lettered)),
            ("The right answer", item.case.answer),
        ]
    if item.profile is not None:
        for part, title in _PROFILE_PARTS.items():
            facts = getattr(item.profile, part)
            parts.append((f"Profile: {title}", "\n".join(f"{fact.key}: {fact.value}" for fact in facts) or "(nothing)"))
    return [(title, text) for title, text in parts if text]


def _shown(question: FormQuestion) -> Mapping[str, Any]:
    options = [(option.value, option.label) for option in question.options]
    if question.cannot_judge:
        options.append((CANNOT_JUDGE, "it cannot be judged from this material"))
    return {"id": question.id, "wording": question.wording, "guidance": question.guidance, "options": options}


def answers_in(text: str, questions: Sequence[FormQuestion], messages: Mapping[int, str]) -> tuple[RatedAnswer, ...]:
    """Return the answers of a reply in the order of the questions; ``messages`` are number → text, if there are any.

    Raises ``ValueError`` if the text cannot be read, or if a question does not have one answer among its options.
    """
    replied = read_json(text, _Answers).answers
    by_id = {answer.id: answer for answer in replied}
    ids = {question.id for question in questions}
    if by_id.keys() != ids or len(by_id) != len(replied):
        wrong = ", ".join(sorted(by_id.keys() ^ ids)) or "one is answered twice"
        raise ValueError(f"it does not answer every question once ({wrong})")
    rated = []
    for question in questions:
        answer = by_id[question.id]
        try:
            value = question.check(str(answer.answer))
        except UsageError as error:
            raise ValueError(f"{question.id}: {error}") from error
        rated.append(_checked(RatedAnswer(question.id, value, reason=answer.reason.strip()), answer, messages))
    return tuple(rated)


def _checked(rated: RatedAnswer, answer: _Answer, messages: Mapping[int, str]) -> RatedAnswer:
    """Return an answer with its quotation, void if the words are in no message."""
    if not messages:
        return rated
    named, words = answer.message if answer.message is not None else -1, answer.words or ""
    for number in [named, *(number for number in messages if number != named)]:
        if number in messages and (quoted := quoted_words(words, messages[number])) is not None:
            repaired = RatedQuotation(number, quoted, "verified" if number == named else "repaired")
            return rated._replace(quotations=(repaired,))
    return rated._replace(value=None, quotations=(RatedQuotation(named, words, "unverified"),), failure=VOID)


_TRIM = " \n\"'“”.,!"


def quoted_words(words: str, message: str) -> str | None:
    """Return the words as the message spells them; a bare "No" is a quotation only if it is the whole message."""
    trimmed = message.strip(_TRIM)
    return trimmed if words.strip(_TRIM).lower() == trimmed.lower() != "" else quotation(words, message)
