"""What careless or unlucky users do, and what they see: steps, looks and facts of ``tests/test_careless_user.py``.

A step is a command of ``python -m core`` in words, or a function that writes journals by hand. Steps are carried out
once a worker, however many situations begin with them (``copy_of``). Models are those of a fake provider, and their
names say how they behave (``Models``).
"""

from __future__ import annotations

import contextlib
import csv
import functools
import io
import json
import os
import re
import shlex
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from core import paths
from core.cli.app import main
from core.datasets.library import library
from core.errors import AnamnesisError
from core.jobs.begun import journals
from core.journal import RunHeader, read_header
from core.store.database import Store
from tests.support.fake_provider import FakeProvider, running
from tests.support.replies import Reply, failing
from tests.support.stores import NAME, copy_of

# ------------------------------------------------------------------------------------------------------------- models

RIGHT, WRONG = "Gout", "Bunion"
_REFUSAL = "I am not able to offer medical advice. Please see a physician."
_AGE = re.compile(r"\b(\d+)-year-old")
_GRADING = re.compile(r"doctor wrote|(?:\\n|^)1: ")
"""What only a grader is asked."""
_YOUNGEST = 20
"""The age of the patient of case 0; each case's patient is a year older than the one before."""


class Models:
    """The fake provider's script: behaviour by the model's name.

    Doctors: ``gout…`` and ``bunion…`` always say so; ``first-N`` says gout in cases 0 to N − 1 and bunion in others;
    ``slips`` errs in the first answer to a command; ``lists`` names all choices in every second case; ``fifth`` gets no
    reply in every fifth case and ``broken`` in none; ``blank`` says nothing; ``declines`` refuses; ``drifts`` is served
    by two versions. Graders: ``fair`` goes by the name, ``strict`` says no, ``lenient`` yes, ``echo`` repeats
    refusals; ``both`` is a doctor who says gout, and a fair grader. ``summary`` and ``cut-summary`` write summaries.
    Anybody else speaks as a patient.
    """

    def __init__(self) -> None:
        self.served = "fake-1"
        """The name that the provider reports for a reply."""
        self.answers: Counter[str] = Counter()
        """Replies of each model to the present command."""

    def __call__(self, body: dict[str, Any]) -> Reply | str:
        name = str(body["model"])
        if name == "both":  # answers as a doctor and judges as a grader
            name = "fair" if _GRADING.search(str(body["messages"])) else "gout"
        age = _AGE.search(str(body["messages"]))
        case = int(age[1]) - _YOUNGEST if age else 0
        self.answers[name] += 1
        served = ("drifts-june", "drifts-july")[case % 2] if name == "drifts" else self.served
        if name == "broken" or (name == "fifth" and case % 5 == 0):
            return failing(400, "no capacity")
        if name.endswith("summary"):
            return Reply("A man with a toe that", finish_reason="length" if name == "cut-summary" else "stop")
        return Reply(self._text(name, body, case), model=served)

    def _text(self, name: str, body: dict[str, Any], case: int) -> str:
        if name in ("fair", "strict", "lenient", "echo"):
            return _graded(name, body["messages"])
        if name.startswith("judge"):
            return _judged(name, str(body["messages"][0]["content"]))
        says = {"blank": "", "declines": _REFUSAL}.get(name)
        if says is not None:
            return says
        if name == "lists" and case % 2:
            return "Gout, Cellulitis, Bunion or Fracture"
        right = {
            "gout": True,
            "bunion": False,
            "drifts": True,
            "lists": True,
            "fifth": True,
            "slips": self.answers[name] > 1,
            "first": case < int(name.partition("-")[2] or 0) if name.startswith("first") else False,
        }.get(name.partition("-")[0])
        if right is None:
            return "My big toe is red and it hurts."
        return f"**Final Diagnosis:** {RIGHT if right else WRONG}"


def _judged(name: str, prompt: str) -> str:
    messages = [
        (int(n), role, text) for n, role, text in re.findall(r"^\[(\d+)\] (\w+)[^:]*: (.*)$", prompt, re.MULTILINE)
    ]
    judgements = {}
    for question, criterion in re.findall(r"^Question (q\d+): (.*)$", prompt, re.MULTILINE):
        word = re.findall(r"\w+", criterion)[-1]
        speaker = {"judge-patient": "Patient", "judge-kind": "Doctor"}.get(name)
        said = [m for m in messages if (m[1] == speaker if speaker else word.lower() in m[2].lower())]
        quoted = said[-1] if said else None
        met, missed = ("erfüllt", "nicht erfüllt") if name == "judge-german" else ("met", "not met")
        quotations = [{"message": quoted[0], "words": quoted[2]}] if quoted else []
        judgements[question] = {"quotations": quotations, "reason": "so", "answer": met if quoted else missed}
    return f"Here it is:\n```json\n{json.dumps(judgements)}\n```"


def _graded(name: str, messages: Sequence[Any]) -> str:
    prompt = next(str(message["content"]) for message in messages if message["role"] == "user")
    if "doctor wrote" in prompt:  # step 1; a request to repair a reply comes after it
        if _REFUSAL in prompt:
            return "I'm sorry, but I can't give medical advice." if name == "echo" else "None"
        named = next((word for word in (RIGHT, WRONG) if f"Diagnosis:** {word}" in prompt), "Multiple")
        # its No to the same name would be no verdict
        return "Podagra" if name == "strict" and named == RIGHT else named
    compared = next(line for line in reversed(prompt.lower().splitlines()) if line.startswith("1:"))
    fits = {"strict": "Be generous." in prompt, "lenient": True}.get(name, compared.count(RIGHT.lower()) == 2)
    return "Yes" if fits else "No"


@functools.cache
def _provider() -> tuple[FakeProvider, Models]:
    """Return the provider of this worker, which runs until the worker ends."""
    models = Models()
    return _lasting.enter_context(running(models)), models


_lasting = contextlib.ExitStack()

# -------------------------------------------------------------------------------------------------------------- files

_JOBS = (
    "baker", "sailor", "nurse", "driver", "farmer", "teacher", "plumber", "lawyer", "waiter", "miner", "tailor",
    "dancer", "florist", "butcher", "gardener", "cook", "printer", "mason", "barber", "porter", "engraver", "welder",
    "librarian", "pilot", "fisherman", "joiner", "cashier", "roofer", "singer", "surveyor", "weaver", "potter",
    "jeweller", "optician", "translator", "hunter", "beekeeper", "glazier", "watchmaker", "bricklayer",
)  # fmt: skip
_ONSETS = ("last night", "Monday", "a feast", "a long walk", "two days", "the weekend", "Easter", "his holiday")
_SIGNS = (
    "He has no fever.",
    "It throbs at rest.",
    "A sheet over it is too much.",
    "He cannot wear a shoe.",
    "It is hot.",
)
_OTHERS = ("Cellulitis", "Fracture", "Septic arthritis", "Sprain")
_SPECIALTIES = (
    "Dermatology", "Neurology", "Cardiology", "Urology and Nephrology", "Endocrinology", "Rheumatology",
    "Gastroenterology", "Infectious Disease", "Pediatrics and Neonatology", "Hematology and Oncology",
    "Obstetrics and Gynecology", "Other",
)  # fmt: skip
_QUESTION = "What is the most likely diagnosis?"
_PRICED = """
[models."openai/gout-costly"]
prices = { input = 1000.0, output = 1000.0 }
"""
"""A call of 11 + 7 tokens costs $0.018."""


_DIAGNOSIS = "  - {id: name, criterion: The doctor names gout, points: 5, priority: must, axis: reasoning}\n"
_FEVER = "  - {id: fever, criterion: The doctor asks about fever, points: 3, axis: data gathering}\n"
_ALCOHOL = "  - {id: drink, criterion: The doctor recommends alcohol, points: -4, axis: safety}\n"
_RUBRICS = {
    "feet": f"title: Feet\nall:\n{_DIAGNOSIS}{_FEVER}{_ALCOHOL}",
    "feet-worded": f"title: Feet\nall:\n{_DIAGNOSIS}{_FEVER.replace('asks about', 'enquires about')}{_ALCOHOL}",
    "feet-heavy": f"title: Feet\nall:\n{_DIAGNOSIS.replace('5', '27')}{_FEVER}{_ALCOHOL}",
    "feet-twice": f"title: Feet\nall:\n{_DIAGNOSIS}{_FEVER}all:\n{_ALCOHOL}",
    "feet-huge": f"title: Feet\nall:\n{_FEVER.replace('3', '1e300')}",
    "harm": f"title: Harm\nall:\n{_ALCOHOL}",
}
"""Rubrics of users; a doctor who says gout at once reaches 5 of 8 points of ``feet``, and one who says bunion none."""


def _toe(number: int, **changes: Any) -> dict[str, Any]:
    age, job = _YOUNGEST + number, _JOBS[number % len(_JOBS)]
    onset, sign = _ONSETS[number % len(_ONSETS)], _SIGNS[number % len(_SIGNS)]
    item = {
        "id": f"toe-{number}",
        "vignette": f"A {age}-year-old {job} has had a red, swollen big toe since {onset}. {sign}",
        "question": _QUESTION,
        "options": [RIGHT, WRONG, _OTHERS[number % 4], _OTHERS[(number + 1) % 4]],
        "answer": RIGHT,
        "specialty": _SPECIALTIES[number % len(_SPECIALTIES)],
    }
    return {**item, **changes}


@functools.cache
def files() -> Path:
    """Return a folder with files of users: lists of cases, a grader's prompts before and after a change, and prices."""
    folder = Path(_lasting.enter_context(tempfile.TemporaryDirectory()))
    toes = [_toe(n) for n in range(40)]
    lists: dict[str, list[dict[str, Any]]] = {
        "toes": toes,
        "doubled": [*toes[:10], *({**item, "id": f"again-{n}"} for n, item in enumerate(toes[:3]))],
        "nested": [*toes[:4], _toe(4, options=["2", "12", "20", "7"], answer="2", question="How many days?")],
        "mixed": [*toes[:6], *(_toe(n, question="What is the best treatment?") for n in range(6, 10))],
    }
    for name, items in lists.items():
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, items)), encoding="utf-8")
    (folder / "models.toml").write_text(_PRICED, encoding="utf-8")
    (folder / "library2.jsonl").write_text(
        "\n".join(case.model_dump_json() for case in library()[:6]).replace("library/", "library2/"), encoding="utf-8"
    )
    for name, text in _RUBRICS.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    for version in ("before", "after"):
        pack = folder / version / "grading"
        pack.mkdir(parents=True)
        for prompt in (paths.PROMPTS / "craftmd").glob("*.md"):
            manner = "Be generous.\n" if version == "after" else "Be exact.\n"
            text = prompt.read_text(encoding="utf-8") + manner * (prompt.stem == "grader_judge")
            (pack / prompt.name).write_text(text, encoding="utf-8")
    return folder


# -------------------------------------------------------------------------------------------------------------- steps

Step = str | Callable[[Store], object]
"""A command in words, or a function that writes to a store.

``served=NAME`` before a command is the model name that the provider reports. A command that begins with ``-`` may fail.
``{files}`` is the folder of the user's files, ``{here}`` and ``{there}`` are two addresses of the provider, ``{run1}``
is the first run, ``{run2}`` the second.
"""


@dataclass(frozen=True)
class Steps:
    """What a user does, in order; called with an empty store, it does it there."""

    steps: tuple[Step, ...]

    def __call__(self, store: Store) -> None:
        *before, last = self.steps
        if before:
            copy_of(Steps(tuple(before)), store.path.parent)
        if not isinstance(last, str):
            last(store)
            return
        status, text = perform(last.removeprefix("-"))
        if status and not last.startswith("-"):
            raise RuntimeError(f"{last} ended with status {status}:\n{text}")


def done(steps: Sequence[Step], folder: Path) -> Store:
    return copy_of(Steps(tuple(steps)), folder) if steps else Store(folder / NAME)


@contextlib.contextmanager
def outside(folder: Path | None = None) -> Iterator[None]:
    """Give commands and pages the fake provider and no key, and the store in a folder."""
    provider, _ = _provider()
    others = {k: v for k, v in os.environ.items() if not re.match(r"(AZURE_)?OPENAI|ANTHROPIC|ANAMNESIS_MODELS", k)}
    more = {"OPENAI_BASE_URL": provider.base_url, "ANAMNESIS_MODELS": str(files() / "models.toml"), "COLUMNS": "240"}
    if folder:
        more["ANAMNESIS_DB"] = str(folder / NAME)
    with mock.patch.dict(os.environ, {**others, **more}, clear=True):
        yield


def perform(command: str) -> tuple[int, str]:
    """Carry out a command in the store that ``ANAMNESIS_DB`` names; return its status and all that it printed."""
    provider, models = _provider()
    runs = sorted(_headers(), key=lambda header: header.created_at)
    places = {
        "files": files(),
        "here": provider.base_url,
        "there": provider.base_url.replace("127.0.0.1", "localhost"),
        **{f"run{number}": header.run_id for number, header in enumerate(runs, 1)},
    }
    words = shlex.split(command.format(**places))
    served = words.pop(0).removeprefix("served=") if words[0].startswith("served=") else "fake-1"
    models.answers.clear()
    with (
        outside(),
        mock.patch.object(models, "served", served),
        redirect_stdout(io.StringIO()) as out,
        redirect_stderr(io.StringIO()) as err,
    ):
        status = main(words)
    return status, f"{out.getvalue()}{err.getvalue()}"


def _headers() -> Iterator[RunHeader]:
    for path in journals():
        with contextlib.suppress(AnamnesisError):  # journals of completions describe no run
            yield read_header(path)


# -------------------------------------------------------------------------------------------------------------- looks


@dataclass(frozen=True)
class Page:
    """A page of the dashboard at an address."""

    name: str
    query: Mapping[str, str | list[str]] = field(default_factory=dict)


Look = str | Page
"""Where a user looks: a command (of reports the rows are read, too), or a page."""


@dataclass(frozen=True)
class Seen:
    """What a user sees: all text, and the exit status of a command (0 for a page)."""

    text: str
    status: int = 0
    rows: Sequence[Mapping[str, str]] = ()
    """Of a report, as CSV has them."""


def look(where: Look, store: Store) -> Seen:
    with outside(store.path.parent):
        if isinstance(where, Page):
            return Seen(_text_of(where))
        status, text = perform(where)
        rows: list[dict[str, str]] = []
        if where.startswith("report") and status == 0:
            _, table = perform(f"{where} --format csv --out {store.path.parent / f'{time.monotonic_ns()}.csv'}")
            written = re.search(r"Wrote .* to (\S+)\.$", table, re.MULTILINE)
            assert written, table
            rows = list(csv.DictReader(io.StringIO(Path(written[1]).read_text(encoding="utf-8"))))
        return Seen(text, status, rows)


def _text_of(page: Page) -> str:
    import streamlit as st
    from streamlit.testing.v1 import AppTest

    from tests.support.pages import visit, words

    st.cache_data.clear()
    st.cache_resource.clear()
    app = AppTest.from_file(str(paths.ROOT / "app.py"), default_timeout=60)
    for key, value in page.query.items():
        app.query_params[key] = value
    visit(app, page.name).run()
    assert not app.exception, app.exception[0].value
    tables = [frame.value.to_csv() for frame in app.dataframe] + [table.value.to_csv() for table in app.table]
    numbers = [f"{metric.label}: {metric.value} {metric.delta}" for metric in app.metric]
    # names are escaped for Markdown
    return re.sub(r"\\([^\w\s])", r"\1", "\n".join([words(app), *numbers, *tables]))


# -------------------------------------------------------------------------------------------------------------- facts

Fact = Callable[[Seen], None]
"""What must hold of what is seen; raises ``AssertionError`` otherwise."""


def assert_sees(does: Sequence[Step], sees: Sequence[tuple[Look, Sequence[Fact]]], folder: Path) -> None:
    """Carry out what a user does, look at each place, and assert that its facts are true; a place needs a fact."""
    with outside(folder):
        store = done(does, folder)
    for where, facts in sees:
        assert facts, f"nothing is expected of {where}"
        seen = look(where, store)
        for fact in facts:
            fact(seen)


def says(*patterns: str) -> Fact:
    """Return a fact: the text has every pattern, in upper or lower case."""

    def check(seen: Seen) -> None:
        missing = [pattern for pattern in patterns if not re.search(pattern, seen.text, re.IGNORECASE)]
        assert not missing, f"nothing says {missing} in:\n{seen.text}"

    return check


def silent(*patterns: str) -> Fact:
    def check(seen: Seen) -> None:
        present = [pattern for pattern in patterns if re.search(pattern, seen.text, re.IGNORECASE)]
        assert not present, f"{present} must not be said, but is in:\n{seen.text}"

    return check


def status(number: int) -> Fact:
    def check(seen: Seen) -> None:
        assert seen.status == number, f"status {seen.status}:\n{seen.text}"

    return check


Wanted = str | float | None | Callable[[float], bool]
"""What a cell must be: a text (a part of it), a number, empty, or a number of which something holds."""


def row(where: Mapping[str, str] | None = None, **cells: Wanted) -> Fact:
    """There is one row of which ``where`` holds (a part of each text), and its cells are as wanted."""

    def check(seen: Seen) -> None:
        rows = [line for line in seen.rows if all(part in line[name] for name, part in (where or {}).items())]
        assert len(rows) == 1, f"{len(rows)} rows of {where} in {list(seen.rows)}\n{seen.text}"
        wrong = {name: rows[0][name] for name, expected in cells.items() if not _is(rows[0][name], expected)}
        assert not wrong, f"{wrong} in {rows[0]}\n{seen.text}"

    return check


def every_row(**cells: Wanted) -> Fact:
    """Return a fact: there are rows, and each has these cells."""

    def check(seen: Seen) -> None:
        assert seen.rows, seen.text
        wrong = [line for line in seen.rows if not all(_is(line[name], expected) for name, expected in cells.items())]
        assert not wrong, f"{wrong}\n{seen.text}"

    return check


def values(column: str, number: int) -> Fact:
    def check(seen: Seen) -> None:
        different = {line[column] for line in seen.rows}
        assert len(different) == number, f"{sorted(different)}\n{seen.text}"

    return check


def _is(cell: str, expected: Wanted) -> bool:
    if expected is None:
        return cell == ""
    if isinstance(expected, str):
        return expected in cell
    if callable(expected):
        return cell != "" and expected(float(cell))
    return cell != "" and abs(float(cell) - expected) < 1e-4
