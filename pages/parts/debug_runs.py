"""The debugger's runs that this server knows, and what is shown of them: the run, trial and cell in the address."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import streamlit as st

from core.case import Case
from core.debugger.run import BenchRun, Cell, Row, matrix, resume_bench
from core.debugger.steps import TrialRecord
from core.debugger.stored import StoredBench, load_bench, load_record
from core.events import FORMATS, QUESTION_TYPES, Event, Finished, Rule, Verdict
from core.frameworks.base import Arm
from core.jobs.engine import is_running
from core.jobs.plan import trials_of
from core.journal import RunHeader, done_trials, journal_path, read_header
from core.store.database import Store
from core.store.fold import fold_if_free

_BENCH = re.compile(r"bench-[\w-]+")
_MOST = 30
"""Runs kept in memory; the oldest finished ones make way."""
ADDRESS = ("run", "trial", "cell", "step", "left", "right", "view")
"""What of the address belongs to the run that is shown."""


@dataclass(frozen=True)
class Shown:
    """A run of one case, or one stored trial: trial number → its id and what happened in it.

    ``bench`` is the run in this process; it is under way, or was run here.
    """

    header: RunHeader
    case: Case
    events: Mapping[int, Sequence[Event]]
    trial_ids: Mapping[int, str]
    bench: BenchRun | None = None
    single: TrialRecord | None = None

    @property
    def running(self) -> bool:
        """Whether events may still come."""
        return self.bench is not None and self.bench.running

    @property
    def complete(self) -> bool:
        """Whether every trial of the run came to its end; a single trial of another run is all that is shown of it."""
        ended = sum(any(isinstance(event, Finished) for event in events) for events in self.events.values())
        return self.single is not None or ended >= self.header.trials

    @property
    def rows(self) -> list[Row]:
        """The matrix as it is now."""
        if self.bench is not None:
            return self.bench.matrix()
        arms: list[Arm] = [(format_, kind) for format_, kind in self.header.arms]  # type: ignore[misc]
        return matrix(self.events, None if self.single else arms)

    def stored(self, record: TrialRecord) -> bool:
        """Whether a trial is in the database: it came to its end, and its run is over."""
        return not self.running and any(isinstance(event, Finished) for event in record.events)

    def record(self, number: int) -> TrialRecord | None:
        """Return a trial as the bench reads it, or ``None`` where nothing is known of it."""
        if self.single is not None:
            return self.single
        if self.bench is not None:
            return self.bench.record(number)
        return _record(*_key(), self.trial_ids[number]) if number in self.trial_ids else None


@st.cache_resource
def _benches() -> dict[str, BenchRun]:
    return {}


def adopt(bench: BenchRun) -> None:
    """Show a run from now on, also to whoever opens the same address."""
    known = _benches()
    for key in [key for key, run in known.items() if not run.running][: max(0, len(known) - _MOST)]:
        del known[key]
    known[bench.run_id] = bench
    leave()
    st.query_params["run"] = bench.run_id


def draw_resume(run_id: str) -> None:
    """Let a run of this page that was stopped or broke off go on, where there is one."""
    if not _BENCH.fullmatch(run_id) or not (path := journal_path(run_id)).exists() or is_running(run_id):
        return
    header = read_header(path)
    missing = len(trials_of(header)) - len(done_trials(path))
    if not missing:
        return
    words = "1 trial is missing" if missing == 1 else f"{missing} trials are missing"
    if st.button(
        f"Go on: {words}", icon=":material/resume:", key="debug_go_on",
        help="What was paid for is not asked for again: it goes on with the replies that are missing.",
    ):  # fmt: skip
        adopt(resume_bench(run_id))
        st.rerun()


def leave() -> None:
    """Go back to choosing a case."""
    for name in ADDRESS:
        st.query_params.pop(name, None)


def current() -> Shown | None:
    """Return what the address asks for, or ``None`` for a fresh start or where it is not stored here."""
    run_id, trial_id = st.query_params.get("run"), st.query_params.get("trial")
    if trial_id:
        record = _record(*_key(), trial_id)
        if record is None:
            return None
        number = record.number
        return Shown(record.header, record.case, {number: record.events}, {number: record.trial_id}, single=record)
    if not run_id:
        return None
    bench = _benches().get(run_id)
    if bench is not None:
        ids = {trial.number: trial.trial_id for trial in bench.trials}
        return Shown(bench.header, bench.case, bench.snapshot(), ids, bench)
    stored = _stored(*_key(), run_id)
    return Shown(stored.header, stored.case, stored.events, stored.trial_ids) if stored else None


def asked_for() -> bool:
    """Say whether the address names a run or a trial."""
    return "run" in st.query_params or "trial" in st.query_params


def from_address(name: str, key: str, options: Iterable[str], default: str | None) -> str | None:
    """Set a control to what the address says, where that is on offer, else to its default; return it.

    A bound control would put its label into the address, which is no name to rely on.
    """
    wanted = st.query_params.get(name)
    chosen = next((one for one in options if one == wanted), default)
    preset(key, chosen)
    return chosen


def preset(key: str, value: object) -> None:
    """Set a control, unless it is set so already: setting it anew would close it under a visitor's hand."""
    if key not in st.session_state or st.session_state[key] != value:
        st.session_state[key] = value


def to_address(name: str, key: str, *gone: str) -> None:
    """Put what a control was set to into the address, and take out what no longer belongs to it."""
    if st.session_state[key] is not None:
        st.query_params[name] = st.session_state[key]
    for other in gone:
        st.query_params.pop(other, None)


def _key() -> tuple[str, str]:
    store = Store()
    fold_if_free(store)
    return str(store.path), store.version


@st.cache_resource(max_entries=16, show_spinner=False)
def _stored(path: str, version: str, run_id: str) -> StoredBench | None:
    return load_bench(run_id)


@st.cache_resource(max_entries=64, show_spinner=False)
def _record(path: str, version: str, trial_id: str) -> TrialRecord | None:
    return load_record(trial_id)


_PLACE = re.compile(r"(\d+):(\w+):(\w+)")
_WRONG: tuple[Verdict, ...] = ("incorrect", "no_diagnosis", "multiple")


@dataclass(frozen=True)
class Place:
    """A cell of the matrix: the trial's number from 0, and the arm."""

    trial: int
    arm: Arm

    def __str__(self) -> str:
        """Return the place as it stands in the address, the trial counted from 1."""
        return f"{self.trial + 1}:{self.arm[0]}:{self.arm[1]}"


def place_of(text: str | None) -> Place | None:
    """Read a place from the address; ``None`` where it is none."""
    found = _PLACE.fullmatch(text or "")
    if not found or found[2] not in FORMATS or found[3] not in QUESTION_TYPES or found[1] == "0":
        return None
    return Place(int(found[1]) - 1, (found[2], found[3]))


def chosen_place(rows: Sequence[Row], rule: Rule, *, running: bool = False) -> Place | None:
    """Return the cell in the address; else, once the run is over, the first wrong answer or the first cell."""
    places = [Place(cell.trial, (cell.format, cell.question_type)) for row in rows for cell in row.cells]
    wanted = place_of(st.query_params.get("cell"))
    if wanted in places:
        return wanted
    if running:
        return None
    wrong = [p for p, cell in zip(places, cells_of(rows), strict=True) if cell.verdict(rule) in _WRONG]
    return next(iter(wrong or places), None)


def cell_at(rows: Sequence[Row], place: Place) -> Cell:
    """Return the cell of a place that is in the matrix."""
    return next(c for c in cells_of(rows) if (c.trial, (c.format, c.question_type)) == (place.trial, place.arm))


def cells_of(rows: Sequence[Row]) -> list[Cell]:
    """Return all cells of a matrix."""
    return [cell for row in rows for cell in row.cells]
