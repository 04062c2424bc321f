"""Replies that real models gave: how they are stored, read and replayed.

A file under ``recorded/`` has a JSON object in each line: ``prompt`` (the pack and the prompt that asked), ``key`` (the
hash of the messages), ``reply``, ``finish`` and ``tokens`` (of prompt and reply), ``about`` (what its reader needs) and
``read``: what a person reads in the reply. ``python -m tests.real.recordings LOG`` makes lines from the log of a
recording proxy, one for each reply that the program has a reader for.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core import paths
from core.agents.grader import read_comparison, read_name
from core.agents.mcq import named_choices
from core.agents.probe import read_belief
from core.agents.profiler import Filtered, read_profile
from core.agents.sections_model import read_split
from core.asking.ask import read_json
from core.asking.scene import Turn
from core.case import Case
from core.frameworks.automedic.tags import read_tags
from core.frameworks.conversation import concluded
from core.jobs.items import read_items
from core.jobs.openings import read_opening
from core.judging.form import RUBRIC, Form, FormQuestion, forms
from core.judging.request import Material, answers_in
from core.judging.rubric import read_rubric, rubric_files
from core.prompts import load_pack
from tests.support.replies import Reply, Script

RECORDED = Path(__file__).with_name("recorded")
UNREADABLE = "unreadable"
_LANDMARK = re.compile(r"(?<=[\n}])[^{}\n]{25,}")
"""Words of a prompt between two placeholders or ends of lines, which its requests have."""
_MESSAGE = re.compile(r"^\[\d+\] (\w+)[^:\n]*: (.*(?:\n    .*)*)$", re.MULTILINE)
"""``[2] Doctor: Any fever?``; later lines of a message are indented."""
_CHOICE = re.compile(r"^[A-Z]\. (.+)$", re.MULTILINE)
_HEADING = re.compile(r"^((?:The|Its|Profile)\b[^\n]{0,60}):$", re.MULTILINE)
"""``The right answer:``, which is no text of the item."""
_PAIR = re.compile(r"^1: (.+) \| 2: (.+) →$", re.MULTILINE)
_QUOTED = re.compile(r"<quoted>\n(.*?)\n</quoted>", re.DOTALL)
_QUESTION = re.compile(r"^Question (q\d+): (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Recording:
    """A reply; ``read`` is ``None`` until a person has read it."""

    prompt: str
    key: str
    reply: str
    finish: str
    tokens: tuple[int, int]
    about: Mapping[str, Any]
    read: Any = None


def recordings(folder: Path = RECORDED) -> list[tuple[str, Recording]]:
    """Return (file and line, recording)."""
    return [
        (f"{path.name}:{number}", Recording(**{**fields, "tokens": tuple(fields["tokens"])}))
        for path in sorted(folder.glob("*.jsonl"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for fields in (json.loads(line),)
    ]


def key_of(messages: Sequence[Mapping[str, Any]]) -> str:
    said = [(message["role"], message["content"]) for message in messages]
    return hashlib.sha256(json.dumps(said, ensure_ascii=False).encode()).hexdigest()[:16]


def replaying(recorded: Iterable[Recording]) -> Script:
    """Return a script of the fake provider that gives the recorded reply, and an error for a request without one."""
    by_key = {recording.key: recording for recording in recorded}

    def script(body: dict[str, Any]) -> Reply:
        recording = by_key.get(key_of(body["messages"]))
        if recording is None:
            return Reply(status=404, error={"message": f"No reply is recorded for {key_of(body['messages'])}."})
        return Reply(recording.reply, finish_reason=recording.finish, usage=recording.tokens)

    return script


def _material(about: Mapping[str, Any]) -> Material:
    """Return the item that a judge was shown."""
    scripted = about.get("scripted", ())
    turns = [Turn(role, text, scripted=n in scripted) for n, (role, text) in enumerate(about["dialogue"])]
    _, *pieces = _HEADING.split(about["shown"].replace("\n    ", "\n"))
    texts = {title: text.strip() for title, text in zip(pieces[::2], pieces[1::2], strict=True)}
    case = Case.model_construct(
        vignette=texts.get("The case", ""),
        question=texts.get("The question about it", ""),
        choices=tuple(line.partition(". ")[2] for line in texts.get("Its choices", "").splitlines()),
        answer=texts.get("The right answer", ""),
    )
    return Material(
        tuple(turns),
        case=case,
        summary=texts.get("The summary of the conversation", ""),
        response=texts.get("The answer that was given", ""),
        extracted=texts.get("The diagnosis that was read from it", ""),
    )


def _judged(reply: str, about: Mapping[str, Any]) -> dict[str, str]:
    """Return q1, q2, … → the answer, after ``void`` if its quotations are no evidence."""
    form = form_of(about["form"])
    questions = [_asked(form, *asked) for asked in about["questions"]]
    answers = answers_in(reply, form, questions, _material(about), numbers=about["numbers"])
    return {f"q{n}": f"{'void ' * answer.void}{answer.value}" for n, answer in enumerate(answers, 1)}


def form_of(name: str) -> Form:
    return read_rubric(rubric_files()[name.removeprefix(RUBRIC)]) if name.startswith(RUBRIC) else forms()[name]


def _asked(form: Form, question_id: str, wording: str) -> FormQuestion:
    """Return a question of a form; one about a fact has the id of the form's question, and its own wording."""
    question = next(q for q in form.questions if q.id == question_id and (q.each or q.wording == wording))
    return question.model_copy(update={"wording": wording})


def _tags(reply: str, about: Mapping[str, Any]) -> dict[str, Any]:
    spoken = read_tags(reply)
    return {"to": [query.to for query in spoken.queries], "ends": spoken.ends, "misuses": list(spoken.misuses)}


def _case(about: Mapping[str, Any]) -> Case:
    return Case(case_key="t/1", dataset="t", specialty="Other", answer="Gout", vignette=about["vignette"])


def _filtered(reply: str, about: Mapping[str, Any]) -> list[Any]:
    read = read_json(reply, Filtered)
    return [read.suitable, read.reason]


def _profile(reply: str, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the speaker, the keys of the facts, and how many are dropped."""
    speaker, checked = read_profile(reply, _case(about))
    keys = [fact.key for fact in (*checked.profile.demographics, *checked.profile.basic)]
    results = [fact.value for fact in checked.profile.optional]
    return {"speaker": speaker, "facts": keys, "results": results, "dropped": len(checked.dropped)}


def _split(reply: str, about: Mapping[str, Any]) -> dict[str, int]:
    split = read_split(reply, about["vignette"])
    return {"invented": split.invented, "by rule": split.by_rule}


def _belief(reply: str, about: Mapping[str, Any]) -> list[list[Any]]:
    return [[name, round(share, 3)] for name, share in read_belief(reply)]


_ABOUT_TEXTS = ("openings/opening", "items/items", "automedic/filter", "automedic/profile", "craftmd/sections")
"""Prompts about the text of a case, which is one paragraph."""
Reader = Callable[[str, Mapping[str, Any]], Any]
READERS: Mapping[str, Reader] = {
    "judging/judge": _judged,
    "judging/ask": _judged,
    "craftmd/doctor": lambda reply, about: concluded(reply) or "goes on",
    "consultation/doctor_long": lambda reply, about: concluded(reply) or "goes on",
    "consultation/doctor_short": lambda reply, about: concluded(reply) or "goes on",
    "craftmd/grader_judge": lambda reply, about: read_comparison(reply, about["name"], [about["right"]]),
    "craftmd/grader_extract": lambda reply, about: read_name(reply, about["response"]),
    "craftmd/answer_mcq": lambda reply, about: named_choices(reply, about["choices"]),
    "craftmd/belief": _belief,
    "automedic/doctor": _tags,
    "openings/opening": lambda reply, about: read_opening(reply, _case(about)),
    "items/items": lambda reply, about: [item.value for item in read_items(reply, _case(about)).items],
    "automedic/filter": _filtered,
    "automedic/profile": _profile,
    "craftmd/sections": _split,
    "automedic/answer_mcq": lambda reply, about: named_choices(reply, about["choices"]),
}
"""Prompt → what its replies are read by."""


def reading(recording: Recording) -> Any:
    """Return what the program reads in a reply, in the form of ``read``."""
    try:
        return READERS[recording.prompt](recording.reply, recording.about)
    except ValueError:
        return UNREADABLE


@functools.cache
def _landmarks() -> dict[str, frozenset[str]]:
    """Prompt → lines that its requests have."""
    files = sorted(paths.PROMPTS.glob("*/*.md"))
    packs = {folder: load_pack(folder, ()) for folder in {path.parent.name for path in files}}
    return {
        f"{path.parent.name}/{path.stem}": frozenset(
            _LANDMARK.findall(packs[path.parent.name].prompts[path.stem].source)
        )
        for path in files
        if path.parent.name != "shared"
    }


def prompt_of(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the prompt that asked: that of the last message with one, repairs aside; empty without."""
    for message in reversed(messages):
        text = str(message["content"])
        found = {name: sum(len(line) for line in lines if line in text) for name, lines in _landmarks().items()}
        best = max(found, key=lambda name: found[name])
        if found[best]:
            return best
    return ""


def about(prompt: str, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return what the reader of a prompt needs; ``None`` if the form is not known."""
    text = "\n\n".join(str(message["content"]) for message in messages if message["role"] != "assistant")
    if prompt.endswith("answer_mcq"):
        listed = (_CHOICE.findall(str(message["content"])) for message in reversed(messages))
        return {"choices": next((choices for choices in listed if len(choices) > 1), [])}
    if prompt.endswith("grader_judge"):
        right, name = _PAIR.findall(str(messages[0]["content"]))[-1]
        return {"right": right, "name": name}
    if prompt.endswith("grader_extract"):
        return {"response": _QUOTED.findall(str(messages[0]["content"]))[-1]}
    if prompt in _ABOUT_TEXTS:
        text = re.split(r"\nThe (?:text|case):\n", str(messages[0]["content"]))[-1]
        return {"vignette": text.split("\n\n")[0].strip()}
    if not prompt.startswith("judging/"):
        return {}
    wordings = list(dict(_QUESTION.findall(text)).values())
    if prompt == "judging/ask":
        talk = [("doctor" if m["role"] == "assistant" else "patient", str(m["content"])) for m in messages[1:-1]]
        shown, numbers = "", False
    else:
        shown, numbers = text.rpartition("</quoted>")[0].rpartition("<quoted>")[2], True
        talk = [(role.lower(), said.replace("\n    ", "\n")) for role, said in _MESSAGE.findall(shown)]
    for form in (form_of(name) for name in (*forms(), *(f"{RUBRIC}{name}" for name in rubric_files()))):
        ids = [next((q.id for q in form.questions if _words(q).fullmatch(asked)), None) for asked in wordings]
        if wordings and None not in ids and form.instruction.strip() in text:
            questions = [list(pair) for pair in zip(ids, wordings, strict=True)]
            return {
                "form": form.name,
                "questions": questions,
                "dialogue": [list(turn) for turn in talk],
                "scripted": [],
                "shown": _MESSAGE.sub("", shown).strip(),
                "numbers": numbers,
            }
    return None


def _words(question: FormQuestion) -> re.Pattern[str]:
    return re.compile(re.escape(question.wording).replace(r"\{fact\}", ".+"))


def exchanges(log: Iterable[str]) -> Iterator[tuple[dict[str, Any], str, str, tuple[int, int]]]:
    """Yield request, reply, reason of its end and tokens of each chat reply of a log, streamed or whole."""
    for line in map(json.loads, log):
        request, answered = line.get("asked") or line.get("request"), line.get("answered") or line.get("response")
        if not request or "messages" not in request or not answered:
            continue
        raw = answered if isinstance(answered, str) else json.dumps(answered)
        streamed = [part.removeprefix("data:").strip() for part in raw.splitlines() if part.startswith("data:")]
        text, finish, usage = "", "", dict[str, Any]()
        for chunk in (json.loads(part) for part in streamed or [raw] if part.startswith("{")):
            usage = chunk.get("usage") or usage
            for choice in chunk.get("choices", ()):
                text += (choice.get("delta") or choice.get("message") or {}).get("content") or ""
                finish = choice.get("finish_reason") or finish
        if finish:
            yield request, text, finish, (usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0))


def recorded_in(log: Iterable[str]) -> Iterator[Recording]:
    for request, reply, finish, tokens in exchanges(log):
        messages = request["messages"]
        prompt = prompt_of(messages)
        if prompt in READERS and (needed := about(prompt, messages)) is not None:
            yield Recording(prompt, key_of(messages), reply, finish, tokens, needed)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as lines:
        for recording in recorded_in(lines):
            print(json.dumps({**vars(recording), "tokens": list(recording.tokens)}, ensure_ascii=False))
