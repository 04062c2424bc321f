"""The requests that ask a model the questions of a form about one item, and the checks of its replies.

A reply has one member for each question, with the evidence first, then the reason, then the answer. The judge sees no
model, no condition, no points and no axis. The order is for the cache of a provider: instructions first, and last what
differs from the request before (of several questions about one item the question, otherwise the item).

A quotation that is in no message voids an answer, whatever it is. An answer that needs evidence is also void if no
quotation is of the speaker whose words are evidence: that the patient speaks of fever does not show that the doctor
asked. The quotations of an answer that are evidence for it come first.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from string import ascii_uppercase
from typing import Annotated, Any, Literal, NamedTuple, cast

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model

from core.asking.ask import Request, quotation, read_json
from core.asking.parts import PromptPart, dialogue_parts, prompt_part
from core.asking.scene import Dialogue, Turn
from core.case import NOT_GIVEN, Case, Profile
from core.events import RoleName
from core.judging.form import OF_TEXTS, Evidence, Form, FormQuestion, Shown
from core.judging.judgement import Quotation
from core.judging.quotations import check_quotation, has_denial
from core.prompts import PromptPack, load_pack

PROMPTS = ("judge", "form", "item", "doctor", "ask")
MOST_QUOTATIONS = 5
_MOST_PLACES = 40
"""Places of a question that asks for all of them."""
_MOST_CHARACTERS = 1_000
OF_CASE = -1
"""Number of the message of a quotation from the case."""
_WHOSE: Mapping[Evidence, str] = {
    "doctor": "doctor",
    "patient": "patient",
    "vignette": "text of the case",
    "response": "answer that was given",
}
"""Evidence of one source → its name in the instruction."""
_PROFILE_PARTS = {
    "demographics": "Demographics",
    "basic": "Known to the patient",
    "optional": "Known to the staff only",
}


@dataclass(frozen=True)
class Material:
    """An item as judges see it: blinded, its messages without tags and reasoning; ``second`` is the other of a pair."""

    dialogue: Dialogue = ()
    second: Dialogue = ()
    case: Case | None = None
    response: str = ""
    extracted: str = ""
    profile: Profile | None = None
    summary: str = ""

    @property
    def messages(self) -> Dialogue:
        """All messages, numbered from 0 over both conversations of a pair."""
        return (*self.dialogue, *self.second)

    def texts(self, shown: Sequence[Shown]) -> list[tuple[str, str]]:
        """Return title and text of what is shown of the case, the response and the profile."""
        texts: dict[Shown, list[tuple[str, str]]] = {
            "summary": [("The summary of the conversation", self.summary)],
            "response": [("The answer that was given", self.response)],
            "extracted": [("The diagnosis that was read from it", self.extracted)],
        }
        if self.case is not None:
            lettered = zip(ascii_uppercase, self.case.choices, strict=False)
            texts["vignette"] = [("The case", self.case.vignette)]
            texts["question"] = [
                ("The question about it", self.case.question),
                ("Its choices", "\n".join(f"{letter}. {choice}" for letter, choice in lettered)),
            ]
            texts["answer"] = [("The right answer", self.case.answer)]
        if self.profile is not None:
            texts["profile"] = [
                (f"Profile: {title}", "\n".join(f"{fact.key}: {fact.value}" for fact in getattr(self.profile, part)))
                for part, title in _PROFILE_PARTS.items()
            ]
        order: tuple[Shown, ...] = ("summary", "vignette", "question", "answer", "profile", "response", "extracted")
        return [
            (title, text)
            for name in order
            if name in shown
            for title, text in texts.get(name, ())
            if text and text not in NOT_GIVEN
        ]


class FormAnswer(NamedTuple):
    """The answer to a question as it was checked. ``void``: its quotations are no evidence for it."""

    question: FormQuestion
    value: str
    quotations: tuple[Quotation, ...] = ()
    reason: str = ""
    void: bool = False

    @property
    def dropped(self) -> int:
        """Number of quotations that are in no message."""
        return sum(quoted.state == "unverified" for quoted in self.quotations)


def text_hash(form: Form, case: Case) -> str:
    """Return a hash of what a form shows of a case."""
    return hashlib.sha256(orjson.dumps(Material(case=case).texts(form.shown))).hexdigest()[:16]


def judging_pack() -> PromptPack:
    return load_pack("judging", PROMPTS)


def judge_request(
    pack: PromptPack, form: Form, questions: Sequence[FormQuestion], item: Material
) -> Request[tuple[FormAnswer, ...]]:
    """Return the request to a judge; ``questions`` are those of the form that apply to the item, or some of them."""
    dialogues = []
    if "dialogue" in form.shown and item.dialogue:
        titles = ("The first conversation", "The second conversation") if item.second else ("The conversation",)
        at = 0
        for title, dialogue in zip(titles, (item.dialogue, item.second), strict=False):
            dialogues.append((title, [numbered(at + n, turn) for n, turn in enumerate(dialogue)]))
            at += len(dialogue)
    evidences = {question.quotes or form.evidence for question in questions}
    whose = next((words for source, words in _WHOSE.items() if evidences == {source}), "")
    evidence = "messages" if evidences - OF_TEXTS - {"none"} else "case" if evidences & OF_TEXTS else ""
    names = [f"q{n}" for n, _ in enumerate(questions, 1)]
    material = [(title, _indented(text)) for title, text in item.texts(form.shown)]
    parts = {
        "judge": prompt_part(pack, "judge", "user", "instruction", evidence=evidence, whose=whose, names=names),
        "form": form_part(pack, form, questions),
        "item": prompt_part(pack, "item", "user", "instruction", material=material, dialogues=dialogues),
    }
    several = len(questions) > 1 or len(form.questions) == 1
    order = ("judge", "form", "item") if several else ("judge", "item", "form")
    return Request(
        "judge",
        [parts[name] for name in order],
        "grader",
        "judge",
        lambda text: answers_in(text, form, questions, item),
        form=reply_form(form, questions),
    )


def doctor_request(
    pack: PromptPack, form: Form, questions: Sequence[FormQuestion], item: Material, doctor: RoleName, seed: int | None
) -> Request[tuple[FormAnswer, ...]]:
    """Return the request to the doctor of a conversation, which it gets as its own; ``doctor`` is the doctor's seat."""
    names = [f"q{n}" for n, _ in enumerate(questions, 1)]
    evidence = "" if form.evidence == "none" else "messages"
    parts: list[PromptPart] = [
        prompt_part(pack, "doctor", "system", "system"),
        *dialogue_parts(item.dialogue, doctor),
        prompt_part(pack, "ask", "user", "question", evidence=evidence, names=names),
        form_part(pack, form, questions),
    ]
    return Request(
        "ask",
        parts,
        doctor,
        "probe",
        lambda text: answers_in(text, form, questions, item, numbers=False),
        form=reply_form(form, questions, numbers=False),
        seed=seed,
    )


def form_part(pack: PromptPack, form: Form, questions: Sequence[FormQuestion]) -> PromptPart:
    labels = {"cannot judge": "it cannot be judged from this material", "not applicable": "its condition is not given"}
    asked = [
        {
            "name": f"q{number}",
            "wording": question.wording,
            "guidance": question.guidance,
            "when": question.when,
            "kind": question.kind,
            "answers": [
                (value, {option.value: option.label for option in question.options}.get(value) or labels[value])
                for value in question.answers
            ],
        }
        for number, question in enumerate(questions, 1)
    ]
    return prompt_part(pack, "form", "user", "instruction", instruction=form.instruction, questions=asked)


def numbered(number: int, turn: Turn) -> str:
    """Return a message as a judge reads it."""
    speaker = ", ".join(filter(None, [turn.role.capitalize(), turn.to]))
    return f"[{number}] {speaker}: {_indented(turn.text) or '(no words)'}"


def _indented(text: str) -> str:
    """Return a text whose later lines are indented, so that none can begin another message."""
    return "\n    ".join(text.splitlines())


class _Reply(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _Quoted(_Reply):
    message: int
    words: str = Field(max_length=_MOST_CHARACTERS)


class _Words(_Reply):
    words: str = Field(max_length=_MOST_CHARACTERS)


def _spelled(values: Sequence[str]) -> BeforeValidator:
    """Accept an answer in other case and with other spaces, and a number for its text."""
    folded = {re.sub(r"[\s_-]+", " ", value).casefold(): value for value in values}

    def read(answer: object) -> object:
        return folded.get(re.sub(r"[\s_-]+", " ", str(answer).strip(" .\"'")).casefold(), answer)

    return BeforeValidator(read)


def reply_form(form: Form, questions: Sequence[FormQuestion], *, numbers: bool = True) -> type[BaseModel]:
    """Return the form of a reply: a member for each question, its answers enumerated, the evidence first.

    With ``numbers`` a quotation names its message; one from a case has none.
    """
    entries = {f"q{number}": (_entry_of(form, question, numbers), ...) for number, question in enumerate(questions, 1)}
    reply: type[BaseModel] = create_model("Reply", __base__=_Reply, **entries)  # type: ignore[call-overload]
    return reply


def _entry_of(form: Form, question: FormQuestion, numbers: bool) -> type[BaseModel]:
    return _entry(question.quotes or form.evidence, question.kind == "span", question.answers, numbers)


@lru_cache(maxsize=256)
def _entry(evidence: Evidence, is_span: bool, answers: tuple[str, ...], numbers: bool) -> type[BaseModel]:
    """Return the form of a reply to one question; that of equal questions is one model, and once in the JSON schema."""
    fields: dict[str, Any] = {}
    if evidence != "none" or is_span:
        quoted = _Quoted if numbers and evidence not in OF_TEXTS else _Words
        most = _MOST_PLACES if is_span else MOST_QUOTATIONS
        fields["quotations"] = (Annotated[list[quoted], Field(max_length=most)], ...)  # type: ignore[valid-type]
    if not is_span:
        fields["reason"] = (Annotated[str, Field(max_length=_MOST_CHARACTERS)], ...)
        fields["answer"] = (
            (Annotated[Literal[answers], _spelled(answers)], ...)
            if answers
            else (Annotated[str, Field(max_length=_MOST_CHARACTERS)], ...)
        )
    entry: type[BaseModel] = create_model("Entry", __base__=_Reply, **fields)
    return entry


def answers_in(
    text: str, form: Form, questions: Sequence[FormQuestion], item: Material, *, numbers: bool = True
) -> tuple[FormAnswer, ...]:
    """Return the checked answers of a reply, in the order of the questions.

    Raises ``ValueError`` with the fault if the text cannot be read, an answer is not among those of its question, or an
    answer that needs evidence has no quotation. Words that are in no message raise nothing: repeating the request would
    teach the judge to quote something.
    """
    wanted = reply_form(form, questions, numbers=numbers)
    try:
        reply: Mapping[str, Any] = dict(read_json(text, wanted))
    except ValueError as error:
        if len(questions) > 1:
            raise
        try:
            reply = {"q1": read_json(text, _entry_of(form, questions[0], numbers))}  # without the object around it
        except ValueError:
            raise error from None
    return tuple(
        _checked(name, reply[name], question, form, item)
        for name, question in ((f"q{n}", question) for n, question in enumerate(questions, 1))
    )


def _checked(name: str, entry: Any, question: FormQuestion, form: Form, item: Material) -> FormAnswer:
    quoted = [given for given in getattr(entry, "quotations", ()) if given.words.strip()]
    for given in quoted:
        if not any(map(str.isalnum, given.words)):
            raise ValueError(f"{name} quotes {given.words!r}, which has no letters: copy the words that decide")
    evidence = question.quotes or form.evidence
    found = dict[tuple[int, str], Quotation]()
    for given in quoted:
        place = _quotation(given, form, evidence, item, question.kind)
        found.setdefault((place.message, place.words), place)
    checked = tuple(found.values())
    if question.kind == "span":
        places = tuple(
            q
            if _is_evidence(q, evidence, item) and (has_denial(q.words) or not question.denies)
            else q._replace(state="unverified")
            for q in checked
        )
        counted = [q for q in places if q.state != "unverified"]
        parts = [q for q in counted for whole in counted if q is not whole and _is_part(q, whole)]
        places = tuple(q for q in places if q not in parts)
        return FormAnswer(question, str(len(counted) - len(set(parts))), places)
    answer, reason = entry.answer.strip(), entry.reason.strip()
    if not answer:
        raise ValueError(f"{name} has no answer")
    evidence = question.evidence_for(answer, form.evidence)
    allowed = [quoted for quoted in checked if _is_evidence(quoted, evidence, item)]
    checked = (*allowed, *(quoted for quoted in checked if quoted not in allowed))
    needed = evidence != "none" and question.needs_words(answer)
    if needed and not quoted:
        raise ValueError(f"{name} is answered {answer!r} without a quotation: quote the words that decide")
    void = any(quoted.state == "unverified" for quoted in checked) or (needed and not allowed)
    return FormAnswer(question, answer, checked, reason, void)


def _quotation(given: _Quoted | _Words, form: Form, evidence: Evidence, item: Material, kind: str) -> Quotation:
    if evidence not in OF_TEXTS:
        span_of = partial(_may_be_evidence, evidence=evidence) if kind == "span" else None
        return check_quotation(getattr(given, "message", None), given.words, item.messages, span_of=span_of)
    shown = form.shown if evidence == "case" else cast("tuple[Shown]", (evidence,))
    found = (quotation(given.words, text) for _, text in item.texts(shown))
    words = next((words for words in found if words is not None), None)
    return Quotation(OF_CASE, given.words.strip(), "unverified") if words is None else Quotation(OF_CASE, words)


def _is_part(quoted: Quotation, whole: Quotation) -> bool:
    """Return whether a place lies in another: “chest pain” in “sharp chest pain” of the same message."""
    return quoted.message == whole.message != OF_CASE and quoted.words in whole.words


def _is_evidence(quoted: Quotation, evidence: Evidence, item: Material) -> bool:
    if quoted.state == "unverified":
        return False
    return evidence in OF_TEXTS or _may_be_evidence(item.messages[quoted.message], evidence)


def _may_be_evidence(turn: Turn, evidence: Evidence) -> bool:
    """Return whether a message is of a speaker whose words are evidence, and no scripted one of another speaker.

    The patient's scripted opening is the complaint of the case, so that it counts where anyone's words do.
    """
    if evidence == "told":
        return turn.role == "patient"
    if evidence == "anyone":
        return not turn.scripted or turn.role == "patient"
    return not turn.scripted and (turn.role == "patient") == (evidence == "patient") and turn.role != "staff"
