"""Reader of the authors' repository: its folders, the papers' names of its models, and the layout of a case file.

A case file has five trials with conversation, answers and grades, and sometimes the case. A missing part of a trial (a
null, a list in place of a text, no evaluation, the whole trial) is invalid with a reason, never wrong. An unusable file
raises ``BadFileError``, and nothing of it is imported.

The results on the NEJM Image Challenge (Johri et al. 2025, Methods) have separate numbers: their ``case_1`` is not the
``case_1`` of the data set's file. Their files contain the cases, with the picture that the doctor saw.
"""

from __future__ import annotations

import base64
import binascii
import csv
import io
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

import orjson

from core import images
from core.agents.mcq import judge_loose, judge_strict
from core.case import FINAL_QUESTION, Case
from core.datasets.readers import FORMATS, read_cases
from core.datasets.reading import ReadCases
from core.errors import AnamnesisError, UsageError
from core.events import Verdict
from core.frameworks.base import Arm
from core.frameworks.conversation import concluded
from core.frameworks.release import (
    BadFileError,
    Layout,
    McqVerdicts,
    ModelFolder,
    OwnCase,
    Release,
    ReleasedModel,
    ReleasedTrial,
    ReleaseFault,
)
from core.images import Image
from core.text.demographics import read_demographics

TRIALS = 5
TRIAL_NAMES = tuple(f"trial_{number}" for number in range(TRIALS))
ARMS: tuple[Arm, ...] = tuple(
    (f, q) for f in ("vignette", "multi_turn", "single_turn", "summarized") for q in ("mcq", "frq")
)
"""The eight arms of the published paper; the preprint has the other arms."""
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
_NO_FAULTS: tuple[ReleaseFault | None, ...] = (None,) * len(ARMS)
_STR = {str}
_ROLES = ["assistant", "user"] * 200
_TURNS = ("doctor", "patient") * 200
OWN_CASES = "craftmd-images"
"""The data set of cases that are contained in files of results, such as those with pictures."""
_PICTURE_PART = b'"image_url"'
_TEXTS = ("case_vignette", "correct_ans")

NAME = "craftmd"
CASES_FILE = "data/usmle_and_derm_dataset.csv"
_QUALITY_CONTROL = "case_vignette_qc.csv"
_ANNOTATIONS = "expert_annotations"
_CASE_FILE = re.compile(r"case_\d+\.json")
_QC_COLUMNS = ("case_id", "only_possible_answer", "single_most_likely_answer")
_QC_NAME = re.compile(r"(public|private)_case(\d+)")
_OFFSET = {"public": -1, "private": 99}
"""The annotators' file has case names public_case01… and private_case01…, the data set case_0… and case_100…."""
_SPECIALTY = re.compile(r"(You are an AI doctor)(?: specializing in [^.]+)?\.")


def _model(label: str, max_messages: int | None = 30, own_cases: bool | None = False) -> ReleasedModel:
    """Return the description of a model; the cap of messages counts the doctor's prompt, ``None`` is no cap."""
    return ReleasedModel(label, {"max_messages": max_messages}, own_cases)


# 30 messages for open models, none for GPT models (SPEC of the release). The conversations of Mistral v0.2 end at 26:
# 144 of them with an open question, and none is longer.
_MODELS = {
    "gpt3_1106": _model("gpt_3_5", None),
    "gpt4_1106": _model("gpt_4", None),
    "gpt4v": _model("gpt_4v", None, own_cases=True),
    "mistral-v1": _model("mistral_v1_7b"),
    "mistral-v2": _model("mistral_v2_7b", 26),
}


class AuthorsRelease(Release):
    """``data/`` with the case file, ``results/MODEL/case_N.json``, and the experts' annotations."""

    name, own_cases, version, arms, trials = NAME, OWN_CASES, 2, ARMS, TRIALS
    about = "the CRAFT-MD authors' release"
    cast: ClassVar = {"patient": "gpt_4", "grader": "gpt_4", "summariser": "gpt_3_5"}  # Johri et al. 2025, Methods

    def wanted(self, member: PurePosixPath) -> bool:
        """Return whether a member of an archive is the case file, a file of results or an annotation."""
        parts = member.parts
        if parts[-2:] == tuple(CASES_FILE.split("/")):
            return True
        if len(parts) < 3 or parts[-3] != "results":
            return False
        return parts[-2] == _ANNOTATIONS or _CASE_FILE.fullmatch(parts[-1]) is not None

    def find(self, folder: Path, name: str) -> Layout:
        """Find the repository in ``folder`` or in a folder directly in it."""
        candidates = [folder, *sorted(p for p in folder.iterdir() if p.is_dir())]
        root = next((p for p in candidates if (p / CASES_FILE).is_file()), None)
        if root is None:
            if any((p / "results").is_dir() for p in candidates):
                raise AnamnesisError(
                    f"{name} has results, but not {CASES_FILE}, which has their cases: add it; nothing was imported."
                )
            raise AnamnesisError(
                f"{name} has no {CASES_FILE} and no results: name a copy of the CRAFT-MD authors' repository."
            )
        models = tuple(_models(root / "results"))
        if not models:
            raise AnamnesisError(f"{name} has no results/MODEL/case_N.json: there is nothing to import.")
        annotations = root / "results" / _ANNOTATIONS
        documents = sorted(p for p in annotations.iterdir() if p.is_file()) if annotations.is_dir() else []
        return Layout(self, root, models, tuple(documents))

    def cases(self, layout: Layout) -> ReadCases:
        """Read the case file, with ``single_diagnosis`` of the cases that annotators labelled."""
        reading, about = read_cases(layout.root / CASES_FILE, NAME, NAME), FORMATS[NAME]
        labels = next((p for p in layout.documents if p.name == _QUALITY_CONTROL and not p.is_symlink()), None)
        single = single_diagnosis(labels.read_bytes()) if labels else {}
        ids = [case.case_key.partition("/")[2] for case in reading.cases]
        credit = {"source": about.source, "licence": about.licence}
        reading.cases = [
            case.model_copy(update=credit | ({"single_diagnosis": single[name]} if name in single else {}))
            for case, name in zip(reading.cases, ids, strict=True)
        ]
        return reading

    def read(self, data: bytes, case_id: str, case: Case | None, model: ReleasedModel) -> list[ReleasedTrial]:
        """Return the five trials of a case file; ``case`` is the data set's case of this id, if there is one."""
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
        # 11 answers of the release begin or end with a space, and the paper's rule for choices searches for it too
        reader = _TrialReader(case, model.settings["max_messages"], answer if isinstance(answer, str) else case.answer)
        return [reader.read(number, stored.get(name)) for number, name in enumerate(TRIAL_NAMES)]

    def brings_own_cases(self, files: Iterable[tuple[bytes, str, Case | None]]) -> bool:
        """Return whether files (contents, case id, the data set's case of this id) contain their cases.

        They do if one has a picture, or if all comparable files differ from the data set in vignette and answer.
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

    def own_case(self, data: bytes, case_id: str) -> OwnCase:
        """Return the case in a file, and store its pictures; raises ``BadFileError`` if a part is missing.

        A picture that is broken or too large is listed in ``faults``, and the case is without it.
        """
        stored = stored_object(data, case_id)
        empty = [name for name in _TEXTS if not _stored_text(stored, name)]
        if empty:
            raise BadFileError(f"it brings its own case, but no {' and no '.join(empty)}")
        choices = stored.get("choices")
        age, sex = read_demographics(_stored_text(stored, "case_vignette"))
        addresses = list(dict.fromkeys(_addresses(stored)))
        pictures, faults = _store_pictures(addresses, case_id)
        case = Case(
            case_key=f"{OWN_CASES}/{case_id}",
            dataset=OWN_CASES,
            specialty="Other",
            vignette=_stored_text(stored, "case_vignette"),
            question=_stored_text(stored, "question") or FINAL_QUESTION,
            choices=tuple(c for c in choices if isinstance(c, str)) if isinstance(choices, list) else (),
            answer=_stored_text(stored, "correct_ans"),
            age=age,
            sex=sex,
            images=pictures,
            source=FORMATS["craftmd"].source,
        )
        return OwnCase(case, int(case_id.removeprefix("case_")), bool(addresses), faults)

    def template_of(self, prompt: str) -> str:
        """Return a prompt with ``{specialty}`` in place of its specialty, or added if it has none (Other)."""
        return _SPECIALTY.sub(r"\1 specializing in {specialty}.", prompt, count=1).strip()


def _models(results: Path) -> Iterator[ModelFolder]:
    """Yield the folders with case files; the label of a model that is not in the papers is its folder's name."""
    for folder in sorted(results.iterdir()) if results.is_dir() else []:
        if not folder.is_dir() or folder.name == _ANNOTATIONS:
            continue
        with os.scandir(folder) as entries:
            ids = [entry.name.removesuffix(".json") for entry in entries if _CASE_FILE.fullmatch(entry.name)]
        if ids:
            label = "llama_2_7b" if folder.name.lower().replace("-", "").startswith("llama2") else folder.name
            model = _MODELS.get(folder.name) or _model(label, own_cases=None)
            ordered = sorted(ids, key=lambda name: int(name.removeprefix("case_")))
            yield ModelFolder(folder, f"{NAME}-{folder.name}", model, tuple(ordered))


def single_diagnosis(data: bytes) -> dict[str, bool]:
    """Return case id of the data set → whether one diagnosis is the only possible or the single most likely one.

    Rows with other names are ignored; a wrong header raises ``AnamnesisError``.
    """
    rows = csv.DictReader(io.StringIO(data.decode("utf-8-sig", errors="replace")))
    if not set(_QC_COLUMNS) <= set(rows.fieldnames or ()):
        raise AnamnesisError(f"The quality-control file needs the columns {', '.join(_QC_COLUMNS)} in its first line.")
    labels: dict[str, bool] = {}
    for row in rows:
        name = _QC_NAME.fullmatch((row["case_id"] or "").strip())
        if name:
            single = any((row[column] or "").strip().lower() == "yes" for column in _QC_COLUMNS[1:])
            labels[f"case_{int(name[2]) + _OFFSET[name[1]]}"] = single
    return labels


def stored_object(data: bytes, case_id: str) -> dict[str, Any]:
    """Return the JSON object of a case file; raises ``BadFileError`` if it is invalid or of another case."""
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
    """Reads the trials of one case; verdicts on equal responses are cached."""

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
        # judge multiple choice by both rules, and copy the grader's verdicts on free responses
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
            # the authors' prompt lists the choices without letters: letters in answers refer to no order
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
        prompted = bool(messages) and messages[0].get("role") != "assistant"  # role system, or the first user message
        if prompted:
            trial.prompt = _message_text(messages[0].get("content"))
        self._read_messages(trial, messages[prompted:])
        trial.doctor_turns = max(0, trial.roles.count("doctor") - 1)
        if trial.end_detail:
            trial.end_reason = "error"
        else:
            # derive why a conversation ended (CRAFT-MD, Methods); the cap counts the doctor's prompt
            last = trial.texts[-1] if len(trial.texts) > 1 and trial.roles[-1] == "doctor" else "?"
            capped = self._max_messages is not None and len(trial.texts) + 1 >= self._max_messages
            trial.end_reason = concluded(last) or ("turn_cap" if capped else "error")
            if trial.end_reason == "error":
                trial.end_detail = "the release's record stops at a question, before the cap of messages"

    def _read_messages(self, trial: ReleasedTrial, spoken: list[dict[str, Any]]) -> None:
        if _is_regular(spoken):
            trial.texts, trial.roles = [message["content"] for message in spoken], _TURNS[: len(spoken)]
            return
        texts = [_message_text(message.get("content")) for message in spoken]
        roles = [_SPEAKERS.get(message.get("role", ""), "") for message in spoken]
        if "" in roles:
            raise BadFileError(f"trial_{trial.number}: message {roles.index('')} is by no doctor and no patient")
        if None in texts:
            gap = texts.index(None)
            trial.end_detail = f"message {gap} is missing in the release"
            texts, roles = texts[:gap], roles[:gap]
        trial.texts, trial.roles = [text or "" for text in texts], roles


def _is_regular(spoken: list[dict[str, Any]]) -> bool:
    """Return whether doctor and patient alternate and every message is a text, as in nearly all conversations."""
    try:
        roles = [message["role"] for message in spoken]
        return roles == _ROLES[: len(spoken)] and {type(message["content"]) for message in spoken} == _STR
    except KeyError:
        return False


def _verdict_of(evaluation: object, extracted: str | None) -> Verdict:
    """Return the verdict of the authors' grader: 1 is correct, 0 is wrong; −1 or a missing value is ungradable."""
    if evaluation == 1:
        return "correct"
    if evaluation != 0:
        return "ungradable"
    return _WRONG.get((extracted or "").lower(), "incorrect")


_WRONG: Mapping[str, Verdict] = {"multiple": "multiple", "none": "no_diagnosis"}


def _text_of(value: object) -> str | None:
    """Return a text, which may be in a list ``[text, cost]``; ``None`` if there is none."""
    if type(value) is str:
        return value
    return value[0] if isinstance(value, list) and value and isinstance(value[0], str) else None


def _message_text(content: object) -> str | None:
    """Return the text of a message, or the texts of its parts if it has pictures."""
    if not isinstance(content, list) or not any(isinstance(part, dict) for part in content):
        return _text_of(content)
    parts = [part for part in content if isinstance(part, dict)]
    texts = [part.get("text") for part in parts if part.get("type", "text") == "text"]
    return "\n".join(text for text in texts if isinstance(text, str))


def _fault_of(stored: Mapping[str, Any], key: str, missing: str | None) -> ReleaseFault | None:
    """Return why a field has no gradable answer, or ``None``; ``missing`` is the reason if the trial is missing."""
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


def _store_pictures(addresses: list[str], case_id: str) -> tuple[tuple[Image, ...], tuple[str, ...]]:
    """Store the embedded pictures of a file, and return all pictures; others have only an address."""
    pictures: dict[Image, None] = {}
    faults = []
    for number, address in enumerate(addresses, 1):
        name = case_id if len(addresses) == 1 else f"{case_id} ({number})"
        if address.startswith(("https://", "http://")):
            pictures[Image(name=name, url=address)] = None
            continue
        try:
            pictures[images.keep(_bytes_of(address, name), name)] = None
        except UsageError as error:
            faults.append(str(error))
    return tuple(pictures), tuple(faults)


def _bytes_of(address: str, name: str) -> bytes:
    head, comma, encoded = address.partition(",")
    if not (comma and head.startswith("data:") and head.endswith(";base64")):
        raise UsageError(f"The picture {name!r} has neither its contents in the file nor an address.")
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise UsageError(f"The picture {name!r} is damaged: its base64 text cannot be read ({error}).") from None


def _addresses(stored: dict[str, Any]) -> Iterator[str]:
    """Yield the addresses of pictures in the conversations; an empty text for a picture without an address."""
    for name in TRIAL_NAMES:
        trial = stored.get(name)
        messages = trial.get("multiturn_conversation") if isinstance(trial, dict) else None
        for message in messages if isinstance(messages, list) else []:
            content = message.get("content") if isinstance(message, dict) else None
            for part in content if isinstance(content, list) else []:
                if isinstance(part, dict) and part.get("type") == "image_url":
                    picture = part.get("image_url")
                    address = picture.get("url") if isinstance(picture, dict) else picture
                    yield address if isinstance(address, str) else ""


def _stored_text(stored: dict[str, Any], name: str) -> str:
    value = stored.get(name)
    return value.strip() if isinstance(value, str) else ""


def _plain(text: str) -> str:
    return " ".join(text.split()).lower()


RELEASE = AuthorsRelease()
