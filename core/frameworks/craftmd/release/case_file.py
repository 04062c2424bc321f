"""Reads one case file of the release: five trials with conversation, answers and grades, and the case if it brings one.

What is missing in a trial (a null, a list in place of a text, no evaluation, the whole trial) is invalid with its
reason, never wrong. What makes the file itself unusable raises ``BadFileError``: nothing of it is taken.

The results on the NEJM Image Challenge (Johri et al. 2025, Methods) are numbered by a list of their own: their
``case_1`` is not the ``case_1`` of the data set's file. They bring their cases, with the picture that was shown.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from core import images
from core.agents.mcq import judge_loose, judge_strict
from core.case import FINAL_QUESTION, Case, read_demographics
from core.datasets.readers import FORMATS
from core.errors import UsageError
from core.events import FINAL_DIAGNOSIS, Verdict
from core.frameworks.base import Arm
from core.frameworks.release import BadFileError, Fault, McqVerdicts, OwnCase, ReleasedTrial
from core.images import Image

TRIALS = 5
TRIAL_NAMES = tuple(f"trial_{number}" for number in range(TRIALS))
ARMS: tuple[Arm, ...] = tuple(
    (f, q) for f in ("vignette", "multi_turn", "single_turn", "summarized") for q in ("mcq", "frq")
)
"""The eight arms of the published paper; the others that can be asked are the preprint's."""
_SPELT = {"multi_turn": "multiturn", "single_turn": "singleturn"}
_KEYS = tuple(f"{_SPELT.get(format_, format_)}_{question_type}" for format_, question_type in ARMS)
"""The field with the response of each arm."""
_MCQ_KEYS = tuple(n for n, arm in enumerate(ARMS) if arm[1] == "mcq")
"""The arms with choices, as positions in ``ARMS``."""
_FRQ_KEYS = tuple(
    (n, f"extracted_ans_{_KEYS[n]}", f"evaluation_{_KEYS[n]}") for n, a in enumerate(ARMS) if a[1] == "frq"
)
"""The free responses: position in ``ARMS``, field with the extracted diagnosis, field with the evaluation."""
_SPEAKERS = {"assistant": "doctor", "user": "patient"}
_NO_FAULTS: tuple[Fault | None, ...] = (None,) * len(ARMS)
_STR = {str}
_ROLES = ["assistant", "user"] * 200
_TURNS = ("doctor", "patient") * 200


def read_case_file(data: bytes, case_id: str, case: Case | None, max_messages: int | None) -> list[ReleasedTrial]:
    """Return the trials of a case file; ``case`` is the data set's case of that id, if it has one.

    ``max_messages`` is the cap that the conversations were held under, with the doctor's prompt; ``None`` is none.
    """
    stored = stored_object(data, case_id)
    if case is None:
        raise BadFileError("the data set file has no such case")
    answer = stored.get("correct_ans")
    if isinstance(answer, str) and answer.strip().lower() != case.answer.lower():
        raise BadFileError(f"it was graded against {answer!r}, but the data set's answer is {case.answer!r}")
    extra = next((key for key in stored if key.startswith("trial_") and key not in TRIAL_NAMES), None)
    if extra is not None:
        raise BadFileError(f"it holds {extra}, but the release has {TRIALS} trials a case, trial_0 to trial_4")
    if not any(name in stored for name in TRIAL_NAMES):
        raise BadFileError("it holds no trial")
    # 11 answers of the release have a space at an end, which the paper's rule for choices looks for as well
    reader = _TrialReader(case, max_messages, answer if isinstance(answer, str) else case.answer)
    return [reader.read(number, stored.get(name)) for number, name in enumerate(TRIAL_NAMES)]


def stored_object(data: bytes, case_id: str) -> dict[str, Any]:
    """Return what a case file holds; raises ``BadFileError`` where it is no object or that of another case."""
    if not data.strip():
        raise BadFileError("it is empty")
    try:
        stored = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise BadFileError(f"it is not whole JSON ({error})") from error
    if not isinstance(stored, dict):
        raise BadFileError("it is not a JSON object")
    if stored.get("case_id", case_id) != case_id:
        raise BadFileError(f"it holds {stored['case_id']}, not {case_id}")
    return stored


class _TrialReader:
    """Reads the trials of one case; the same words are judged once."""

    def __init__(self, case: Case, max_messages: int | None, answer_as_stored: str) -> None:
        self._case = case
        self._answer_as_stored = answer_as_stored
        self._max_messages = max_messages
        self._judged: dict[str, McqVerdicts] = {}

    def read(self, number: int, stored: object) -> ReleasedTrial:
        trial = ReleasedTrial(number, _NO_FAULTS)
        if stored is None:
            trial.missing, stored = f"trial_{number} is missing in the release", {}
        elif isinstance(stored, dict):
            self._read_conversation(trial, stored.get("multiturn_conversation"))
            trial.summary = _text_of(stored.get("summarized_conversation"))
        else:
            raise BadFileError(f"trial_{number} is not an object")
        values = [stored.get(key) for key in _KEYS]
        if set(map(type, values)) == _STR:
            trial.responses = values
        else:
            trial.responses = [_text_of(value) for value in values]
            trial.faults = [_fault_of(stored, key, trial.missing) for key in _KEYS]
        # judge multiple choice by both rules, and take over the grader's verdicts on free responses
        for index in _MCQ_KEYS:
            response = trial.responses[index]
            if response is None or trial.faults[index]:
                trial.mcq.append(None)
            else:
                trial.mcq.append(self._judged.get(response) or self._judge_mcq(response))
        for index, extracted, evaluation in _FRQ_KEYS:
            name = _text_of(stored.get(extracted))
            verdict = None if trial.faults[index] else (_verdict_of(stored.get(evaluation), name), name)
            trial.frq.append(verdict)
        return trial

    def _judge_mcq(self, response: str) -> McqVerdicts:
        loose = judge_loose(response, self._answer_as_stored)
        judged: McqVerdicts = (loose.verdict, None, None)
        if self._case.choices:
            # the authors' prompt named the choices without letters: those that models write fit no order
            strict = judge_strict(response, self._case.answer, self._case.choices, lettered=False)
            judged = (loose.verdict, strict.verdict, strict.extracted)
        self._judged[response] = judged
        return judged

    def _read_conversation(self, trial: ReleasedTrial, messages: object) -> None:
        if messages is None:
            trial.end_reason, trial.end_detail, trial.doctor_turns = "error", "the release holds no conversation", 0
            return
        if not isinstance(messages, list) or not set(map(type, messages)) <= {dict}:
            raise BadFileError(f"trial_{trial.number}: the conversation is not a list of messages")
        prompted = bool(messages) and messages[0].get("role") != "assistant"  # as system, or as the first user
        if prompted:
            trial.prompt = _said_in(messages[0].get("content"))
        self._read_messages(trial, messages[prompted:])
        trial.doctor_turns = max(0, trial.roles.count("doctor") - 1)
        if trial.end_detail:
            trial.end_reason = "error"
        else:
            # derive why a conversation ended (CRAFT-MD, Methods); the cap counts the doctor's prompt
            last = trial.texts[-1] if len(trial.texts) > 1 and trial.roles[-1] == "doctor" else "?"
            if FINAL_DIAGNOSIS in last:
                trial.end_reason = "final_diagnosis"
            elif "?" not in last:
                trial.end_reason = "no_question"
            elif self._max_messages is not None and len(trial.texts) + 1 >= self._max_messages:
                trial.end_reason = "turn_cap"
            else:
                trial.end_reason = "error"
                trial.end_detail = "the release's record stops at a question, before the cap of messages"

    def _read_messages(self, trial: ReleasedTrial, spoken: list[dict[str, Any]]) -> None:
        """Take over what was said, up to a message that is missing."""
        if _is_regular(spoken):
            trial.texts, trial.roles = [message["content"] for message in spoken], _TURNS[: len(spoken)]
            return
        texts = [_said_in(message.get("content")) for message in spoken]
        roles = [_SPEAKERS.get(message.get("role", ""), "") for message in spoken]
        if "" in roles:
            raise BadFileError(f"trial_{trial.number}: message {roles.index('')} is by no doctor and no patient")
        if None in texts:
            gap = texts.index(None)
            trial.end_detail = f"message {gap} is missing in the release"
            texts, roles = texts[:gap], roles[:gap]
        trial.texts, trial.roles = [text or "" for text in texts], roles


def _is_regular(spoken: list[dict[str, Any]]) -> bool:
    """Say whether doctor and patient take turns and every message is a text, as in nearly all conversations."""
    try:
        roles = [message["role"] for message in spoken]
        return roles == _ROLES[: len(spoken)] and {type(message["content"]) for message in spoken} == _STR
    except KeyError:
        return False


def _verdict_of(evaluation: object, extracted: str | None) -> Verdict:
    """Return the authors' grader's verdict: 1 is correct whatever was extracted; −1, or none, cannot be counted."""
    if evaluation == 1:
        return "correct"
    if evaluation != 0:
        return "ungradable"
    return _WRONG.get((extracted or "").lower(), "incorrect")


_WRONG: Mapping[str, Verdict] = {"multiple": "multiple", "none": "no_diagnosis"}


def _text_of(value: object) -> str | None:
    """Return a text, also from a list ``[text, cost]``; ``None`` where there is none."""
    if type(value) is str:
        return value
    return value[0] if isinstance(value, list) and value and isinstance(value[0], str) else None


def _said_in(content: object) -> str | None:
    """Return what a message says: its text, or the texts of its parts where some of them are pictures."""
    if not isinstance(content, list) or not any(isinstance(part, dict) for part in content):
        return _text_of(content)
    parts = [part for part in content if isinstance(part, dict)]
    texts = [part.get("text") for part in parts if part.get("type", "text") == "text"]
    return "\n".join(text for text in texts if isinstance(text, str))


def _fault_of(stored: Mapping[str, Any], key: str, missing: str | None) -> Fault | None:
    """Say why a field holds no answer to grade, or ``None`` where it does; ``missing`` says that the trial does."""
    if missing:
        return "ungradable", missing
    if key not in stored:
        return "ungradable", f"{key} is missing in the release"
    response = stored[key]
    if isinstance(response, str):
        return None
    if response is None:
        return "provider_error", "the release holds null in place of a response"
    if not isinstance(response, list):
        return "ungradable", f"the release holds a {type(response).__name__} in place of a response"
    if _text_of(response) is None:
        return "provider_error", "the release holds a list without a response"
    return "ungradable", "the release holds a list [text, cost] in place of a response"


OWN_CASES = "craftmd-images"
"""The data set of the cases that results bring themselves, as those on pictures do."""
_PICTURE_PART = b'"image_url"'
_TEXTS = ("case_vignette", "correct_ans")


def bring_own_cases(files: Iterable[tuple[bytes, str, Case | None]]) -> bool:
    """Say whether files (contents, case id, the data set's case of that id) bring cases of their own.

    They do where one shows a picture, or where every one that can be compared has another vignette and another
    answer than the data set.
    """
    compared = False
    for data, case_id, case in files:
        if _PICTURE_PART in data:
            return True
        try:
            stored = stored_object(data, case_id)
        except BadFileError:
            continue
        if case is None or not all(isinstance(stored.get(name), str) for name in _TEXTS):
            continue
        vignette, answer = (_plain(stored[name]) for name in _TEXTS)
        if vignette in _plain(f"{case.vignette} {case.question}") or answer == _plain(case.answer):
            return False
        compared = True
    return compared


def own_case(data: bytes, case_id: str) -> OwnCase:
    """Return the case that a file brings, its picture kept; raises ``BadFileError`` where it lacks a part of it.

    A picture that is broken or too large is a fault in words, and the case goes without it.
    """
    stored = stored_object(data, case_id)
    empty = [name for name in _TEXTS if not _text(stored, name)]
    if empty:
        raise BadFileError(f"it brings its own case, but no {' and no '.join(empty)}")
    choices = stored.get("choices")
    age, sex = read_demographics(_text(stored, "case_vignette"))
    addresses = list(dict.fromkeys(_addresses(stored)))
    kept, faults = _keep(addresses, case_id)
    case = Case(
        case_key=f"{OWN_CASES}/{case_id}",
        dataset=OWN_CASES,
        specialty="Other",
        vignette=_text(stored, "case_vignette"),
        question=_text(stored, "question") or FINAL_QUESTION,
        choices=tuple(c for c in choices if isinstance(c, str)) if isinstance(choices, list) else (),
        answer=_text(stored, "correct_ans"),
        age=age,
        sex=sex,
        images=kept,
        source=FORMATS["craftmd"].source,
    )
    return OwnCase(case, int(case_id.removeprefix("case_")), bool(addresses), faults)


def _keep(addresses: list[str], case_id: str) -> tuple[tuple[Image, ...], tuple[str, ...]]:
    """Keep the pictures of a file: those in the file itself as files, others by their address only."""
    kept: dict[Image, None] = {}
    faults = []
    for number, address in enumerate(addresses, 1):
        name = case_id if len(addresses) == 1 else f"{case_id} ({number})"
        if address.startswith(("https://", "http://")):
            kept[Image(name=name, url=address)] = None
            continue
        try:
            kept[images.keep(_bytes_of(address, name), name)] = None
        except UsageError as error:
            faults.append(str(error))
    return tuple(kept), tuple(faults)


def _bytes_of(address: str, name: str) -> bytes:
    """Return the contents of a data URL."""
    head, comma, encoded = address.partition(",")
    if not (comma and head.startswith("data:") and head.endswith(";base64")):
        raise UsageError(f"The picture {name!r} has neither its contents in the file nor an address.")
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise UsageError(f"The picture {name!r} is damaged: its base64 text cannot be read ({error}).") from None


def _addresses(stored: dict[str, Any]) -> Iterator[str]:
    """Yield the addresses of the pictures in the conversations; a picture without one yields an empty text."""
    for part in _parts(stored):
        if part.get("type") == "image_url":
            shown = part.get("image_url")
            address = shown.get("url") if isinstance(shown, dict) else shown
            yield address if isinstance(address, str) else ""


def _parts(stored: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name in TRIAL_NAMES:
        trial = stored.get(name)
        messages = trial.get("multiturn_conversation") if isinstance(trial, dict) else None
        for message in messages if isinstance(messages, list) else []:
            content = message.get("content") if isinstance(message, dict) else None
            yield from (part for part in content if isinstance(part, dict)) if isinstance(content, list) else ()


def _text(stored: dict[str, Any], name: str) -> str:
    value = stored.get(name)
    return value.strip() if isinstance(value, str) else ""


def _plain(text: str) -> str:
    return " ".join(text.split()).lower()
