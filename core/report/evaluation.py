"""The evaluation report: each item of a guideline with the figures that fill it in and the texts that people wrote."""

from __future__ import annotations

import inspect
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from core.callbacks import ProgressCallback, StopCallback
from core.errors import AnamnesisError, UsageError
from core.frameworks.base import frameworks
from core.frameworks.starts import Missing
from core.jobs.repeat import PROGRAM
from core.measures.base import MetricRequest, Note, Result
from core.measures.notes import result_of
from core.measures.set_up import UsedPrompt, distinct_prompts, used_prompts
from core.report.first_page import FirstPage, first_page
from core.report.guidelines import Guideline, Item, guideline
from core.report.parts import FIGURES, NEEDED, PARTS, SAMPLED, Part
from core.report.tables import MOST_NOTES, FigureTable, tables_of
from core.store.conditions import Condition
from core.store.database import Store
from core.store.queries.report_fields import WrittenField, write_fields, written_fields
from core.store.queries.reviews import reviewed_runs
from core.store.queries.runs import Run, RunProgress, runs
from core.store.selection import Selection, conditions

State = Literal["filled", "to be written", "not applicable"]
STATES: tuple[State, ...] = ("filled", "to be written", "not applicable")
MOST_COMMANDS = 3
"""Most commands of a part that has one for each run."""


@dataclass(frozen=True)
class EvaluationFacts:
    """What is stored about the runs of a report.

    ``results`` has the figures of ``FIGURES`` with rows; ``reasons`` says for the others why there are none.
    ``commands`` print the same rows. ``prompts`` are distinct. ``written`` are the texts of people, by part.
    ``reviewed``: people are to judge, or judged, something of the runs.
    """

    runs: Sequence[RunProgress]
    conditions: Sequence[Condition]
    results: Mapping[str, Result]
    reasons: Mapping[str, str]
    commands: Mapping[str, str]
    prompts: Sequence[UsedPrompt] = ()
    written: Mapping[str, WrittenField] = field(default_factory=dict)
    reviewed: bool = False

    @property
    def run_ids(self) -> tuple[str, ...]:
        return tuple(sorted(run.run_id for run in self.runs))

    @property
    def licences(self) -> list[str]:
        """The licences of the played cases; empty texts are unknown ones."""
        sources = self.results.get("case_sources")
        return [row["licence"] or "" for row in sources.rows] if sources else []

    def limits(self) -> dict[Note, list[str]]:
        """Return note → titles of the figures that it is about: the severe notes first, one of each kind before others.

        That nothing was excluded is no limit; neither is a sample that a figure of the report draws.
        """
        about: dict[Note, list[str]] = {}
        for name, result in self.results.items():
            for note in result.notes:
                if note.kind != "sample" and not (note.kind == "excluded" and note.text.endswith("nothing.")):
                    about.setdefault(replace(note, models=(), page=""), []).append(FIGURES[name].title)
        seen = Counter[str]()
        order: dict[Note, tuple[bool, int, int]] = {}
        for note in sorted(about, key=lambda note: (note.severity != "high", -len(about[note]))):
            order[note] = (note.severity != "high", seen[note.kind], -len(about[note]))
            seen[note.kind] += 1
        return {note: about[note] for note in sorted(about, key=order.__getitem__)}


def read_facts(
    store: Store,
    run_ids: Sequence[str],
    progress: ProgressCallback = lambda done, planned: None,
    stop: StopCallback = lambda: False,
) -> EvaluationFacts:
    """Read everything about these runs. After a stop the figures that were not read are missing."""
    selection = Selection(runs=list(run_ids))
    query = _remembering(store)
    results: dict[str, Result] = {}
    reasons: dict[str, str] = {}
    stored = query(conditions, selection)
    for number, (name, section) in enumerate(FIGURES.items()):
        progress(number, len(FIGURES))
        if stop():
            reasons[name] = "Reading was stopped."
            continue
        request = MetricRequest(store, selection_of(name, run_ids, stored), query=query)
        try:
            result = result_of(section.metric, request, dict(section.options))
        except AnamnesisError as error:
            reasons[name] = error.sentence if isinstance(error, Missing) else str(error)
            continue
        if reason := _without_content(name, result):
            reasons[name] = reason
        else:
            results[name] = result
    with store.read() as cursor:
        stored_runs, written = runs(cursor, list(run_ids)), written_fields(cursor, run_ids)
        reviewed = reviewed_runs(cursor, run_ids)
    return EvaluationFacts(
        sorted(stored_runs, key=lambda run: (run.created_at, run.run_id)),
        stored,
        results,
        reasons,
        {name: command_of(name, run_ids, stored) for name in FIGURES},
        distinct_prompts(query(used_prompts, selection)),
        written,
        bool(reviewed),
    )


def _without_content(name: str, result: Result) -> str:
    """Return why a figure is not shown: it has no row, or its rows say nothing that another figure does not say."""
    section = FIGURES[name]
    column, reason = NEEDED.get(name, ("", ""))
    if not result.rows:
        return section.metric.empty
    if column and all(row[column] is None for row in result.rows):
        return reason
    split = section.options.get("by")
    groups = {row.cells().get(split) for row in result.figures} if split else set()
    return f"All cases are of one {split}: {groups.pop()}." if len(groups) == 1 else ""


def _remembering(store: Store) -> Callable[..., Any]:
    """Return a function that calls a query of the store and remembers its answer: several figures share queries."""
    answers: list[tuple[Any, Mapping[str, Any], Any]] = []

    def read(query: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        bound = inspect.signature(query).bind(store, *args, **kwargs)
        bound.apply_defaults()
        for earlier, arguments, answer in answers:
            if earlier is query and arguments == bound.arguments:
                return answer
        answer = query(*bound.args, **bound.kwargs)
        answers.append((query, bound.arguments, answer))
        return answer

    return read


def selection_of(name: str, run_ids: Sequence[str], stored: Sequence[Condition]) -> Selection:
    """Return the trials of a figure: those of the runs, or of their models and cases if its metric reads no runs."""
    filters = FIGURES[name].metric.filters
    if "run" in filters:
        return Selection(runs=list(run_ids), sample=SAMPLED.get(name))
    models, data_sets = _models_and_data_sets(stored)
    return Selection(
        models=models if "models" in filters else None, case_sets=data_sets if "cases" in filters else None
    )


def command_of(name: str, run_ids: Sequence[str], stored: Sequence[Condition]) -> str:
    """Return the command that prints the rows of a figure."""
    section = FIGURES[name]
    words = ["report", section.metric.name]
    if "run" in section.metric.filters:
        for run_id in run_ids:
            words += ["--run", run_id]
        if name in SAMPLED:
            words += ["--sample", str(SAMPLED[name])]
    else:
        models, data_sets = _models_and_data_sets(stored)
        words += ["--models", ",".join(models), "--cases", ",".join(data_sets)]
    for option, value in section.options.items():
        words += [f"--{option.replace('_', '-')}", *([] if value is True else [str(value)])]
    return f"{PROGRAM} {shlex.join(words)}"


def _models_and_data_sets(stored: Sequence[Condition]) -> tuple[list[str], list[str]]:
    models = dict.fromkeys(condition.doctor for condition in stored)
    return list(models), list(dict.fromkeys(condition.newest.data_set for condition in stored))


@dataclass(frozen=True)
class AnsweredPart:
    """A part with its state and content; ``missing`` says what is still to be written.

    Each figure is shown once in a report, in the first part that has it: ``shown_before`` are titles of figures of
    earlier parts.
    """

    name: str
    state: State
    missing: str = ""
    exempt: str = ""
    lines: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    tables: tuple[FigureTable, ...] = ()
    shown_before: tuple[str, ...] = ()
    written: WrittenField | None = None

    @property
    def title(self) -> str:
        return PARTS[self.name].title


@dataclass(frozen=True)
class AnsweredItem:
    """An item with its parts; ``earlier`` are parts that an earlier item shows.

    It is filled if every part that applies is filled.
    """

    item: Item
    parts: tuple[AnsweredPart, ...]
    earlier: frozenset[str] = frozenset()

    @property
    def state(self) -> State:
        states = {part.state for part in self.parts}
        if "to be written" in states:
            return "to be written"
        return "filled" if "filled" in states else "not applicable"

    @property
    def open_parts(self) -> str:
        return ", ".join(part.title for part in self.parts if part.state == "to be written")


@dataclass(frozen=True)
class Evaluation:
    """A guideline answered for some runs: section → items, and filled parts that the guideline does not ask for."""

    guideline: Guideline
    facts: EvaluationFacts
    sections: Mapping[str, tuple[AnsweredItem, ...]]
    further: tuple[AnsweredPart, ...]

    @property
    def first_page(self) -> FirstPage:
        return first_page(self.facts)

    @property
    def prompts(self) -> list[UsedPrompt]:
        """The prompts with a text: the appendix of the report."""
        return [prompt for prompt in self.facts.prompts if prompt.text is not None]

    @property
    def items(self) -> list[AnsweredItem]:
        return [item for items in self.sections.values() for item in items]

    @property
    def title(self) -> str:
        written = self.facts.written.get("title")
        doctors = ", ".join(dict.fromkeys(condition.doctor for condition in self.facts.conditions))
        return written.text if written and written.applies else f"Evaluation of {doctors}"

    def count(self, state: State) -> int:
        return sum(item.state == state for item in self.items)


def evaluation_of(
    store: Store, run_ids: Sequence[str], guideline_name: str, progress: ProgressCallback = lambda done, planned: None
) -> Evaluation:
    """Return the items of a guideline for these runs.

    Raises ``UsageError`` without runs, or for an unknown guideline.
    """
    chosen = guideline(guideline_name, PARTS)
    if not run_ids:
        raise UsageError("An evaluation report needs a run: `python -m core runs` lists them.")
    return evaluated(chosen, read_facts(store, run_ids, progress))


def with_current_texts(facts: EvaluationFacts, store: Store) -> EvaluationFacts:
    """Return the facts with the texts that are stored now."""
    with store.read() as cursor:
        return replace(facts, written=written_fields(cursor, facts.run_ids))


def save_texts(store: Store, run_ids: Sequence[str], texts: Mapping[str, tuple[str, bool]]) -> int:
    """Store part → (text, whether it applies) of the report on these runs; return the number of new texts.

    Raises ``UsageError`` for an unknown part.
    """
    if unknown := [name for name in texts if name not in PARTS]:
        raise UsageError(f"There is no field {unknown[0]!r}: choose among {', '.join(sorted(PARTS))}.")
    with store.write() as connection:
        return write_fields(connection, run_ids, texts)


def evaluated(chosen: Guideline, facts: EvaluationFacts) -> Evaluation:
    """Return the items of a guideline as far as these facts and texts answer them."""
    tables = tables_of(facts.results, facts.commands)
    shown: set[str] = set()
    parts: dict[str, AnsweredPart] = {}
    sections = {}
    for section, items in chosen.sections.items():
        answers = []
        for item in items:
            earlier = frozenset(parts.keys() & set(item.parts))
            for name in item.parts:
                if name not in parts:
                    parts[name] = _answered(name, facts, tables, shown)
            answers.append(AnsweredItem(item, tuple(parts[name] for name in item.parts), earlier))
        sections[section] = tuple(answers)
    rest = [_answered(name, facts, tables, shown) for name, part in PARTS.items() if part.figures and name not in parts]
    return Evaluation(chosen, facts, sections, tuple(part for part in rest if part.tables))


def _answered(name: str, facts: EvaluationFacts, tables: Mapping[str, FigureTable], shown: set[str]) -> AnsweredPart:
    """Return a part: content of the store comes before what people wrote, which fills in what is missing.

    ``shown`` are the figures and notes of earlier parts; those of this part are added.
    """
    part, written = PARTS[name], facts.written.get(name)
    if (reason := part.exempt(facts)) and not (written and written.applies):
        return AnsweredPart(name, "not applicable", exempt=reason, written=written)
    present = [figure for figure in part.figures if figure in facts.results]
    of_runs = [part.command(run) for run in facts.runs] if part.command else []
    commands = tuple(dict.fromkeys(command for command in of_runs if command))
    lines = tuple(part.text(facts))
    if more := len(commands[MOST_COMMANDS:]):
        commands, lines = (
            commands[:MOST_COMMANDS],
            (*lines, f"{more} more runs: the report on one run alone has its command."),
        )
    recorded = [run for run in facts.runs if not part.played_here or _states_settings(run)]
    has_content = bool(recorded and (present if part.figures else commands if part.command else lines))
    unrecorded = _unrecorded(part, facts, of_runs)
    if not has_content:
        reasons = " ".join(dict.fromkeys(facts.reasons[figure] for figure in part.figures if figure in facts.reasons))
        missing = f"{part.hint} {reasons}".strip()
    else:
        missing = f"{part.hint} Not recorded: {', '.join(unrecorded)}." if unrecorded else ""
    state: State = "to be written" if missing else "filled"
    if missing and written:
        state, missing = "filled" if written.applies else "not applicable", ""
    if not has_content:
        return AnsweredPart(name, state, missing, written=written)
    new, before = [], []
    for figure in present:
        table = tables[figure]
        if figure in shown:
            before.append(table.title)
            continue
        notes = [note for note in table.notes if note not in shown]
        new.append(table._replace(notes=tuple(notes[:MOST_NOTES]), notes_left_out=max(0, len(notes) - MOST_NOTES)))
        shown.update((figure, *table.notes))
    return AnsweredPart(name, state, missing, "", lines, commands, tuple(new), tuple(before), written)


def _states_settings(run: Run) -> bool:
    """Whether it is recorded how the models of a run were called: not in a release or a log of another program."""
    return run.source != "release" and run.protocol in frameworks()


def _unrecorded(part: Part, facts: EvaluationFacts, commands: Sequence[str | None]) -> list[str]:
    """Return the runs, models or prompts about which the store does not contain what the part needs."""
    names = [run.run_id for run in facts.runs if part.played_here and not _states_settings(run)]
    names += [run.run_id for run, command in zip(facts.runs, commands, strict=False) if command is None]
    if part.open_if and (result := facts.results.get(part.figures[0])):
        column, value = part.open_if
        recorded = {row[column] for row in result.rows if row[value] is not None}
        names += [name for name in dict.fromkeys(row[column] for row in result.rows) if name not in recorded]
    return names
