"""What the journals say for a report: each fact returns its content, or nothing, so that people have to write it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from core import __version__
from core.datasets.licences import open_licence
from core.events import Utterance
from core.export import reading as export_reading
from core.frameworks.base import title_of
from core.frameworks.casting import is_model, is_rule
from core.jobs.repeat import PROGRAM, run_command_of, transcripts_command
from core.journal import PLAYED_ELSEWHERE
from core.measures.base import Result, Row
from core.report.blocks import (
    Block,
    Bullets,
    Heading,
    Link,
    Listing,
    Paragraph,
    Picture,
    QuotedMessage,
    Table,
    columns_of,
)
from core.report.flow import WIDTH as FLOW_WIDTH
from core.report.flow import flow_svg
from core.report.plots import dot_plot
from core.report.reading import FIGURES, EvaluationFacts, Example, states_settings
from core.store.condition_parts import DOCTOR
from core.words import FORMAT, QUESTION_TYPE, VERDICT

MOST_ROWS = 150
"""Rows of a table in a report; its command prints all."""
_LABELS: Mapping[str, Mapping[Any, str]] = {"format": FORMAT, "question_type": QUESTION_TYPE}


@dataclass(frozen=True)
class Content:
    """What a fact contributes.

    ``missing`` says what people must add, ``not_applicable`` why there is nothing to say.
    """

    blocks: Sequence[Block] = ()
    missing: str = ""
    not_applicable: str = ""


@dataclass(frozen=True)
class Fact:
    """A part of a report that is read from the journals.

    ``hint`` says what people should write if the journals do not contain it.
    """

    name: str
    title: str
    hint: str
    read: Callable[[EvaluationFacts], Content | None] = field(compare=False)


FACTS: dict[str, Fact] = {}
"""Name → fact, in the order in which a report lists facts that its guideline does not ask for."""
Read = Callable[[EvaluationFacts], Content | None]


def fact(title: str, hint: str) -> Callable[[Read], Read]:
    """Register a function as a fact under its name; its docstring is for programmers."""

    def register(read: Read) -> Read:
        name = read.__name__
        FACTS[name] = Fact(name, title, hint, read)
        return read

    return register


def _figures(*names: str, picture: bool = False) -> Read:
    """Return a fact with the tables of these figures, those that have rows."""

    def read(facts: EvaluationFacts) -> Content | None:
        blocks = [block for name in names for block in figure_blocks(facts, name, picture=picture)]
        return Content(blocks) if blocks else None

    return read


def _add(name: str, title: str, hint: str, read: Read) -> None:
    FACTS[name] = Fact(name, title, hint, read)


def figure_blocks(facts: EvaluationFacts, name: str, *, picture: bool = False) -> list[Block]:
    """Return warnings, picture and table of a figure with the command that prints it; empty without rows."""
    result = facts.results.get(name)
    if result is None:
        return []
    section = FIGURES[name]
    axis = next((head for row in result.figures if (head := section.heads.get(row.columns.estimate))), "")
    drawn = dot_plot(result.figures, section.title, axis) if picture else None
    table = table_of(result, section.columns, section.title, section.heads, folded=section.folded)
    return [
        *(Paragraph(note.text, "warning") for note in result.warnings),
        *([drawn] if drawn else []),
        table,
        *_left_out(table, len(result.rows)),
        Paragraph(facts.commands[name], "command"),
    ]


def table_of(
    result: Result,
    columns: Sequence[str] = (),
    caption: str = "",
    heads: Mapping[str, str] | None = None,
    *,
    folded: bool = False,
) -> Table:
    """Return the first rows of a result as a table with the values that its command prints; arms are in words."""
    cells = [row.cells() if isinstance(row, Row) else dict(row) for row in result.rows[:MOST_ROWS]]
    rows = tuple({name: _LABELS.get(name, {}).get(value, value) for name, value in row.items()} for row in cells)
    names = columns_of(rows)
    shown = tuple(name for name in columns if name in names) or tuple(name for name in names if name != "notes")
    return Table(shown, rows, caption, heads, folded)


def _left_out(table: Table, count: int) -> list[Block]:
    left_out = count - len(table.rows)
    return [Paragraph(f"The command prints {left_out} more rows.", "soft")] if left_out else []


@fact("Design", "The design: who was tested on what, in how many conversations.")
def design(facts: EvaluationFacts) -> Content | None:
    played, cases = facts.results.get("dates"), facts.results.get("case_sources")
    if played is None or cases is None:
        return None
    frameworks = dict.fromkeys(title_of(condition.newest.protocol) for condition in facts.conditions)
    doctors = dict.fromkeys(condition.doctor for condition in facts.conditions)
    newest_arms = (pair for condition in facts.conditions for pair in condition.newest.arms)
    arms = dict.fromkeys(f"{FORMAT[format_]} · {QUESTION_TYPE[kind]}" for format_, kind in newest_arms)  # type: ignore[index]
    trials = sum(row["trials"] for row in played.rows)
    sets = ", ".join(f"{row['cases']} cases of {row['data_set']}" for row in cases.rows)
    count = len(facts.conditions)
    text = (
        f"{count} {'condition' if count == 1 else 'conditions'} of {', '.join(doctors)} under {', '.join(frameworks)}: "
        f"{trials} trials on {sets}. Answers: {', '.join(arms)}."
    )
    commands = [Paragraph(facts.commands[name], "command") for name in ("dates", "case_sources")]
    return Content([Paragraph(text), *commands])


@fact("Flow", "What became of cases, trials, conversations and answers, with the reason of each loss.")
def flow(facts: EvaluationFacts) -> Content | None:
    if facts.flow is None:
        return None
    light, dark = (flow_svg(facts.flow, dark=is_dark) for is_dark in (False, True))
    notes = " ".join(facts.flow.notes)
    words = "; ".join(f"{stage.title}: {'unknown' if stage.n is None else stage.n}" for stage in facts.flow.stages)
    height = int(light.partition('height="')[2].partition('"')[0])
    picture = Picture(
        light, dark, FLOW_WIDTH, height, f"What became of cases, trials and answers. {notes}".strip(), words
    )
    return Content([picture, *figure_blocks(facts, "flow")])


@fact("Served models and dates", "The exact version of each model as its provider served it, and the dates of use.")
def served_models(facts: EvaluationFacts) -> Content | None:
    """Missing if a tested model, or a model in another seat, was never named by its provider."""
    tested = {condition.doctor for condition in facts.conditions if is_model(condition.doctor)}
    models = {name for name in tested if not is_rule(name)}
    if not models:
        return Content(not_applicable="Rules play the tested seat, so that no provider served a model.")
    result = facts.results.get("served")
    named = {row["requested"] for row in result.rows if row["served_as"]} if result else set()
    if not named:
        return None
    unnamed = sorted(models - named)
    missing = f"No provider named the version of {', '.join(unnamed)}." if unnamed else ""
    return Content(figure_blocks(facts, "served"), missing)


@fact("Dates of the runs", "The dates on which the models were asked.")
def dates(facts: EvaluationFacts) -> Content | None:
    result = facts.results.get("dates")
    if result is None or not any(row["first"] for row in result.rows):
        return None
    undated = [row["run"] for row in result.rows if not row["first"]]
    missing = f"The dates of {', '.join(undated)} are not recorded." if undated else ""
    return Content(figure_blocks(facts, "dates"), missing)


@fact("Seats and settings", "Every seat with its model, sampling, caps and seeds.")
def settings(facts: EvaluationFacts) -> Content | None:
    blocks = figure_blocks(facts, "settings")
    return Content(blocks) if blocks else None


@fact("Access to the models", "How each model was reached: its own interface, an API, or weights on a machine.")
def access(facts: EvaluationFacts) -> Content | None:
    """For runs of frameworks that are installed; a release, and a log of another program, do not say it."""
    lines: dict[str, None] = {}
    for condition in facts.conditions:
        if not states_settings(condition.newest):
            continue
        for role, model in {DOCTOR: condition.doctor, **condition.seats}.items():
            name = model.partition(" (prompts ")[0]
            where = " / ".join(condition.addresses.get(role, ()))
            lines[f"{name}: {_route(name)}{f', at {where}' if where else ''}."] = None
    if not lines:
        return None
    missing = "How the models of some imported runs were reached is not recorded." if facts.incomplete else ""
    return Content([Bullets(tuple(lines))], missing)


def _route(model: str) -> str:
    if is_rule(model) or not is_model(model):
        return "rules of this program"
    provider = model.partition("/")[0]
    return "weights on this machine" if provider in ("hf", "local") else f"the API of {provider}"


@fact("Separate sessions", "Whether each conversation was a new session.")
def sessions(facts: EvaluationFacts) -> Content | None:
    if not any(map(states_settings, facts.runs)):
        return None
    text = (
        "Each trial is a conversation of its own: a request contains the prompts and the messages of this trial, and "
        "nothing of any other trial."
    )
    missing = "For some imported runs this is not recorded." if facts.incomplete else ""
    return Content([Paragraph(text)], missing)


@fact("All responses", "Where all prompts and responses can be read.")
def responses(facts: EvaluationFacts) -> Content | None:
    if not facts.runs:
        return None
    commands = [Paragraph(transcripts_command(run), "command") for run in facts.runs]
    elsewhere = any(run.source in PLAYED_ELSEWHERE for run in facts.runs)
    missing = "Of imported runs only messages and answers are stored, and no requests." if elsewhere else ""
    return Content([Paragraph("These commands write every message, request and response:"), *commands], missing)


@fact("Prompts", "The text of every prompt.")
def prompts(facts: EvaluationFacts) -> Content | None:
    """Missing for prompts whose file has changed since the run."""
    if not facts.prompts:
        return None
    without = [prompt.name for prompt in facts.prompts if prompt.text is None]
    texts = [
        Listing(f"{prompt.pack}/{prompt.name} ({prompt.role}, {prompt.hash})", prompt.text)
        for prompt in facts.prompts
        if prompt.text is not None
    ]
    sentence = f"The files of {', '.join(without)} have changed since the runs: add the text that was used."
    return Content([*figure_blocks(facts, "prompts"), *texts], sentence if without else "")


@fact("Input", "What kind of data the models received.")
def input_type(facts: EvaluationFacts) -> Content | None:
    if not facts.runs:
        return None
    shown = any(run.settings.get("images") for run in facts.runs)
    pictures = "The doctor also received the pictures of cases." if shown else "No picture was sent."
    return Content([Paragraph(f"Text, as messages of a conversation. {pictures}")])


@fact("Cases and reference standard", "The source of the cases and of their right answers.")
def reference_standard(facts: EvaluationFacts) -> Content | None:
    blocks = figure_blocks(facts, "case_sources")
    if not blocks:
        return None
    return Content(
        [
            Paragraph("The right answer of a case is the one that its data set states."),
            Paragraph(export_reading.RULES_EXPLAINED),
            *blocks,
        ]
    )


@fact("Graders", "Who judged the answers.")
def grading(facts: EvaluationFacts) -> Content | None:
    lines = [
        f"{condition.name}: {grader}"
        for condition in facts.conditions
        if (grader := condition.seats.get("grader")) is not None
    ]
    return Content([Paragraph("Verdicts on free responses that count:"), Bullets(tuple(lines))]) if lines else None


_add(
    "agreement",
    "Agreement and calibration of judges",
    "Agreement of the judges with people and with each other.",
    _figures("judge_status", "graders"),
)


@fact("Sample size", "How the number of cases and trials was chosen.")
def sample_size(facts: EvaluationFacts) -> Content | None:
    blocks = figure_blocks(facts, "power")
    return Content(blocks) if blocks else None


@fact("Statistics", "The statistical methods.")
def statistics(facts: EvaluationFacts) -> Content | None:
    lines = [
        f"{FIGURES[name].title}: {FIGURES[name].metric.help}".replace("\n", " ")
        for name, result in facts.results.items()
        if result.figures
    ]
    return Content([Bullets(tuple(lines))]) if lines else None


@fact("Ranking", "Which model is best, with cost and messages.")
def ranking(facts: EvaluationFacts) -> Content | None:
    """Not applicable with one condition: there is nothing to rank."""
    if "ranking" not in facts.results:
        if len(facts.conditions) < 2:
            return Content(not_applicable="There is one condition, so that nothing can be ranked.")
        return None
    return Content(figure_blocks(facts, "ranking"))


@fact("Planned, done, different", "The plan that was locked before the runs, and where the study differs from it.")
def plan(facts: EvaluationFacts) -> Content | None:
    blocks: list[Block] = []
    for checked in facts.plans:
        rows = tuple(dict(row) if isinstance(row, Mapping) else row.cells() for row in checked.items)
        blocks.append(Table(columns_of(rows), rows, f"Plan {checked.name}"))
        blocks.append(Paragraph(checked.command, "command"))
    return Content(blocks) if blocks else None


_add("accuracy", "Accuracy", "The performance with its intervals.", _figures("accuracy", picture=True))
_add(
    "comparisons",
    "Comparisons with vignettes",
    "How the results compare with other models, people and benchmarks.",
    _figures("against_vignette"),
)
_add("repeatability", "Repeated trials", "How far repeated trials agree.", _figures("repeatability"))
_add("subgroups", "Subgroups", "Results by subgroup.", _figures("by_specialty", "by_dataset"))
_add("endings", "How conversations ended", "How the conversations ended.", _figures("endings"))


@fact("Failures", "The nature, frequency and size of deviations from the reference.")
def failures(facts: EvaluationFacts) -> Content | None:
    blocks = figure_blocks(facts, "failures")
    if not blocks:
        return None
    rows = [
        {
            "conversation": Link(example.row["trial_id"], anchor_of(example)),
            **{name: example.row[name] for name in ("case", "model", "cause", "verdict")},
        }
        for example in facts.examples
    ]
    linked: list[Block] = [Table(columns_of(rows), tuple(rows), "Examples, quoted at the end")] if rows else []
    return Content([*blocks, *linked])


_add(
    "harm",
    "Harm",
    "Harmful, biased or misleading answers, by a scale of harm. Rubrics with musts and must-nots, judged by a model, "
    "would fill it (python -m core job rubrics), and so would doctors asked for the urgency (python -m core job "
    "urgency).",
    _figures("safety", "urgency"),
)
_add(
    "contamination",
    "Contamination",
    "Whether the models may have been trained on the cases. Completions of the cases would fill it: "
    "python -m core job completions.",
    _figures("memorisation", "memorised_accuracy"),
)
_add("cost", "Calls, tokens and cost", "Compute: calls, tokens, time, machines and cost.", _figures("spend"))


@fact("Software", "The program with its version, and the packages behind the figures.")
def software(facts: EvaluationFacts) -> Content | None:
    if not facts.packages:
        return None
    versions = dict.fromkeys(run.code_version for run in facts.runs if states_settings(run))
    played = f" The runs were played by version {', '.join(versions)}." if versions else ""
    rows = [{"part": name, "version": version} for name, version in facts.packages.items()]
    text = f"This report was made by Anamnesis {__version__}.{played}"
    return Content(
        [Paragraph(text), Table(("part", "version"), tuple(rows), "Environment of this report", folded=True)]
    )


@fact("Commands that repeat it", "How the runs can be repeated.")
def repeat(facts: EvaluationFacts) -> Content | None:
    commands = [command for run in facts.runs if (command := run_command_of(run))]
    if not commands:
        return None
    missing = "Runs of a release or a log cannot be repeated from here." if len(commands) < len(facts.runs) else ""
    bundle = f"{PROGRAM} bundle make {shlex.join(facts.run_ids)} --out bundle.zip"
    about_bundle = "A bundle has journals, cases, prompts, settings and figures, and can be played again elsewhere:"
    return Content(
        [
            *(Paragraph(command, "command") for command in dict.fromkeys(commands)),
            Paragraph(about_bundle),
            Paragraph(bundle, "command"),
        ],
        missing,
    )


@fact("Limitations that the figures note", "The limitations.")
def limitations(facts: EvaluationFacts) -> Content | None:
    notes = facts.notes()
    if not notes:
        return None
    lines = [f"{note.text} ({', '.join(dict.fromkeys(titles))})" for note, titles in notes.items()]
    simulated = "The patients are simulated: a model or rules play them."
    return Content([Bullets((simulated, *lines))])


def anchor_of(example: Example) -> str:
    return f"trial-{example.row['trial_id']}"


def example_blocks(facts: EvaluationFacts) -> list[Block]:
    """Return the quoted conversations with the answer in the arm of the wrong answer.

    A conversation contains texts of its case, and is quoted only if everybody may pass the case on.
    """
    blocks: list[Block] = []
    for example in facts.examples:
        row, talk = example.row, example.talk
        blocks.append(Heading(f"{row['case']}: {str(row['cause']).replace('_', ' ')}", 3, anchor_of(example)))
        blocks.append(Paragraph(f"{row['model']}, conversation {row['trial_id']}. {row['rule']}", "soft"))
        if talk.case is None or open_licence(talk.case.licence) is None:
            blocks.append(Paragraph("Not quoted: the licence of the case is not open. This command writes it for you:"))
            blocks.append(_conversation_command(row["trial_id"]))
            continue
        for event in talk.events:
            if isinstance(event, Utterance):
                blocks.append(QuotedMessage(export_reading.role(event.role), event.text))
        blocks.append(Paragraph(export_reading.ending(talk), "soft"))
        for line in export_reading.arms([talk]):
            (outcome,) = line.cells
            if outcome is None or (outcome.answer.format, outcome.answer.question_type) != (
                row["format"],
                row["question_type"],
            ):
                continue
            verdict = "; ".join(VERDICT[grade.verdict] for grade in outcome.grades)
            blocks.append(
                QuotedMessage(f"Answer, {line.name}", outcome.answer.response or outcome.answer.detail or "no answer")
            )
            blocks.append(Paragraph(f"{verdict}. Right answer: {talk.case.answer}."))
        blocks.append(_conversation_command(row["trial_id"]))
    return blocks


def _conversation_command(trial_id: str) -> Paragraph:
    out = f"{trial_id.replace('/', '-')}.html"
    return Paragraph(f"{PROGRAM} {shlex.join(['export', 'conversation', trial_id, '--out', out])}", "command")
