"""Urgency: the levels that doctors choose when they are asked, and those of their own words, against the cases' levels.

Both are one model about one patient, but advice is another task than a choice: one can miss an emergency alone. The
unit is the case: the conversations of a case are averaged first, and intervals (95 %) are those of a mean over cases.
Unanswered conversations and cases without a level are counted and enter no share of right or wrong levels.

The levels of the library's cases are in ``data/urgency``; those of other cases are labels
(``core.store.queries.case_labels``).
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd

from core.errors import AnamnesisError, FailureKind
from core.frameworks.answering import reason_of
from core.frameworks.casting import is_model
from core.frameworks.starts import URGENCY, URGENCY_WORDS
from core.judging.calibration import Trust
from core.judging.check import FAILED_CHECK
from core.judging.form import read_form
from core.judging.judgement import Judge, Judgement
from core.measures.agreement import grouped, statuses
from core.measures.base import CASES_OF_RUNS, Columns, Listed, MetricRequest, Row, Section, metric
from core.measures.comparison import compare_cases
from core.measures.conversations import ScoredConversation, by_condition, case_scores
from core.measures.conversations import grouped as conversations_by
from core.measures.opinions import read_opinions
from core.paths import FORMS
from core.paths import URGENCY as LEVEL_FILES
from core.stats.smoothed import mean_interval
from core.store.database import Store
from core.store.queries.judgements import failed_checks, judgements
from core.store.queries.rubrics import urgency_conversations
from core.store.selection import Selection

LEVELS: Mapping[int, str] = {
    int(option.value): option.label.partition(".")[0].lower()
    for option in read_form(FORMS / "urgency.yaml").questions[0].options
}
"""Level → time until care (1 immediately to 5 no appointment): the beginning of its wording in the form."""
SEVERE_STEPS = 2
EMERGENCY, ROUTINE = 2, 4
"""The last level of an emergency, and the first that waits for an appointment."""
Triage = Literal["exact", "over-triage", "under-triage"]


class CaseLevel(NamedTuple):
    """The level of a case with its reason."""

    level: int
    reason: str


def triage_of(level: int, given: int) -> Triage:
    """Return what a given level is against the level of the case; a higher number is later care."""
    return "exact" if given == level else "under-triage" if given > level else "over-triage"


def is_severe(level: int, given: int) -> bool:
    """Return whether care comes two or more levels too late, or by appointment or never in an emergency.

    On a scale of five levels the second condition is part of the first. It is stated because it is the reason for it.
    """
    return given - level >= SEVERE_STEPS or (level <= EMERGENCY and given >= ROUTINE)


@cache
def levels_of_files() -> Mapping[str, CaseLevel]:
    """Return case key → level, from ``data/urgency/DATASET.csv`` with the columns case, level and reason."""
    levels: dict[str, CaseLevel] = {}
    for path in sorted(LEVEL_FILES.glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                if row["level"] not in map(str, LEVELS):
                    raise AnamnesisError(f"{path}: {row['case']} has the level {row['level']!r}, not 1 to 5.")
                levels[f"{path.stem}/{row['case']}"] = CaseLevel(int(row["level"]), row["reason"])
    return levels


By = Literal["level", "specialty", "dataset"]
FORCED, WORDS = "urgency_forced", "urgency_words"
"""The forms of the question to the doctor's own model, and of the judge that reads the doctor's words."""
SEVERE, UNANSWERED, NOTHING_SAID = "severe under-triage", "unanswered", "nothing said"
FIGURES = ("exact", "over-triage", "under-triage", SEVERE)
MANY_UNANSWERED = 0.1
"""A larger share of unanswered conversations makes the note on them severe."""
_WAYS = {"forced choice": (FORCED, (UNANSWERED,)), "own words": (WORDS, (NOTHING_SAID, UNANSWERED))}
"""Way → its form, and the figures that are shares of the asked conversations."""
_SHARE = Columns("share", excluded="excluded")
_FILE = "data/urgency"
_ByOption = Annotated[By | None, "Split the shares by level of the case, specialty or data set."]


@dataclass(frozen=True, kw_only=True)
class TriagedConversation(ScoredConversation):
    """A conversation with the level of its case and the answer about its level.

    ``ended``: not by a failure or a refusal, with a message of the doctor. ``level`` is 1 to 5; its ``source`` is
    ``data/urgency`` or the origin of the case's label. ``served`` are the names under which the doctor of its run was
    served; ``None`` if they are not recorded.
    """

    ended: bool
    served: list[str] | None
    level: int | None
    source: str
    answer: Judgement | None = None

    @property
    def outcome(self) -> str:
        """``answered``, or why there is no level; an answer that is no level is its own outcome."""
        if self.answer is None:
            return "not asked" if self.ended else "conversation broke off"
        if self.answer.value is None:
            kind = self.answer.failure.partition(":")[0]
            if kind == FAILED_CHECK:
                return kind
            return reason_of(kind) if kind in get_args(FailureKind) else "unreadable"
        if self.answer.void:
            return "invented quotation"
        return "answered" if self.given else self.answer.value

    @property
    def given(self) -> int | None:
        value = self.answer.value if self.answer and self.answer.counts else None
        return next((level for level in LEVELS if str(level) == value), None)

    @property
    def judged(self) -> bool:
        return self.answer is not None

    @property
    def levels(self) -> tuple[int, int] | None:
        """The level of the case and the given one, if both count."""
        return None if self.level is None or self.given is None else (self.level, self.given)

    def counts_in(self, figure: str) -> bool:
        """Return whether it is counted in a figure: a triage of answered conversations, unanswered, or an outcome."""
        if figure not in FIGURES:
            return figure == self.outcome if figure != UNANSWERED else not (self.answer and self.answer.counts)
        assert self.levels is not None, "only answered conversations have a triage"
        return is_severe(*self.levels) if figure == SEVERE else triage_of(*self.levels) == figure


class UrgencyReading(NamedTuple):
    """The conversations of a selection, with the answers under the same prompts as the ``last`` one.

    ``other_prompts`` is the number of answers under other prompts, or by another judge.
    """

    conversations: list[TriagedConversation]
    last: Judgement | None
    other_prompts: int = 0


def read_urgency(
    store: Store, selection: Selection, form: str = FORCED, last: Judgement | None = None
) -> UrgencyReading:
    """Read the conversations of a selection with their levels; ``last`` overrides the last answer in the selection."""
    with store.read() as cursor:
        conversations = urgency_conversations(cursor, selection)
        stored = judgements(cursor, [form], selection=selection, kinds=["model"])
        failed = failed_checks(cursor, form)
    stored = [
        replace(answer, value=None, failure=FAILED_CHECK) if (answer.judge, answer.against) in failed else answer
        for answer in stored
    ]
    answers = sorted((answer for answer in stored if answer.repeat == 1), key=lambda answer: answer.at)
    last = last or (answers[-1] if answers else None)
    by_subject = {answer.subject: answer for answer in answers if last and _prompts(answer) == _prompts(last)}
    of_files = levels_of_files()
    triaged = [
        TriagedConversation(**{**played, **own}, answer=by_subject.get(f"talk:{played['trial_id']}"))
        for played in conversations
        for of_file in [of_files.get(played["case_key"]) if played["source"] in ("", "model") else None]
        for own in [{"level": of_file.level, "source": _FILE} if of_file else {}]
    ]
    return UrgencyReading(triaged, last, len(answers) - len(by_subject))


def _prompts(answer: Judgement) -> tuple[str, ...]:
    """Return what is equal in answers that are shown together; each doctor is the judge of its own conversations."""
    return (*(() if answer.form == FORCED else (answer.judge.name,)), answer.judge.prompt_hash, answer.against)


@metric(
    "urgency",
    *CASES_OF_RUNS,
    "sample",
    empty="No doctor was asked how urgent a conversation is.",
    starts=(URGENCY,),
    page="quality",
)
def report_urgency(
    request: MetricRequest,
    part: Annotated[
        Literal["shares", "levels", "list"],
        "Shares, given levels by level of the case, or each conversation with a level that is too late.",
    ] = "shares",
    by: _ByOption = None,
) -> Iterator[Listed]:
    """Report how soon doctors would have the patients seen, against the levels of urgency of the cases.

    1 immediately, 2 within hours, 3 within a day, 4 by appointment, 5 no appointment. Exact, over-triage and
    under-triage add up to 1; severe under-triage, two or more levels too late, is a part of under-triage.
    """
    reading = request.read(read_urgency, request.selection)
    groups = by_condition(reading.conversations)
    request.judged_by(FORCED, (played.answer.judge for played in reading.conversations if played.answer))
    _note(request, reading)
    if part == "shares" and by is None:
        values = [
            (model, figure, case, share)
            for model, conversations in groups.items()
            for figure in FIGURES
            for case, share in _shares((played for played in conversations if played.levels), figure).items()
        ]
        request.case_values = pd.DataFrame(values, columns=["model", "figure", "case_key", "value"])
    for model, conversations in groups.items():
        if part == "levels":
            yield from _table(model, conversations)
        elif part == "list":
            yield from _too_late(model, conversations)
        else:
            yield from _share_rows({"model": model}, conversations, by, (UNANSWERED,))


@metric(
    "urgency_words",
    *CASES_OF_RUNS,
    "sample",
    empty="No model has read how urgent the patients are in the doctors' own words.",
    starts=(URGENCY_WORDS, URGENCY),
    page="quality",
)
def report_urgency_words(request: MetricRequest, by: _ByOption = None) -> Iterator[Row]:
    """Report how soon doctors would have the patients seen: by a forced choice, and in their own words.

    The gap is the share in own words minus that of the forced choice, over the cases of conversations with a level both
    ways. A conversation in which the doctor said nothing about it has no level, and is no wrong one.
    """
    readings = {way: request.read(read_urgency, request.selection, form) for way, (form, _) in _WAYS.items()}
    chosen, own = (by_condition(reading.conversations) for reading in readings.values())
    _note(request, readings["own words"])
    for model in own:
        for (way, (_, of_asked)), group in zip(_WAYS.items(), (chosen.get(model, []), own[model]), strict=True):
            yield from _share_rows({"model": model, "way": way}, group, by, of_asked)
        first = {played.trial_id: played for played in chosen.get(model, ()) if played.levels}
        both = [played for played in own[model] if played.levels and played.trial_id in first]
        for label, of_label in _split(both, by):
            for figure in FIGURES:
                of_choice = _shares((first[played.trial_id] for played in of_label), figure)
                gap = compare_cases(of_choice, _shares(of_label, figure))
                names = {"model": model, "way": "gap", **label, "figure": figure}
                counts = {"n_conversations": len(of_label)}
                yield Row(names, gap.difference, gap.low, gap.high, gap.n, {}, counts, columns=_SHARE)


def _split(
    conversations: Sequence[TriagedConversation], by: By | None
) -> list[tuple[dict[str, str], Sequence[TriagedConversation]]]:
    """Return the label and the conversations of each group, in order; those without a level have none by level."""
    if by is None:
        return [({}, conversations)]
    members = [played for played in conversations if by != "level" or played.level is not None]
    named = conversations_by(
        members, lambda played: in_words(played.level or 0) if by == "level" else getattr(played, by)
    )
    return [({by: name}, group) for name, group in named]


def in_words(level: int) -> str:
    return f"{level} {LEVELS[level]}"


def _share_rows(
    label: dict[str, str], conversations: Sequence[TriagedConversation], by: By | None, of_asked: Sequence[str]
) -> Iterator[Row]:
    """Yield the triage of the answered conversations, and the figures that are shares ``of_asked`` ones."""
    for group, members in _split(conversations, by):
        asked = [conversation for conversation in members if conversation.judged]
        with_level = [conversation for conversation in asked if conversation.level is not None]
        answered = [conversation for conversation in with_level if conversation.levels]
        outside = Counter(conversation.outcome for conversation in members if not conversation.judged)
        outside["no level"] = len(asked) - len(with_level)
        unanswered = Counter(conversation.outcome for conversation in with_level if conversation.given is None)
        for figure in (*FIGURES, *of_asked):
            counted, excluded = (answered, outside + unanswered) if figure in FIGURES else (with_level, outside)
            values = np.array(list(_shares(counted, figure).values()))
            n_of_these = sum(conversation.counts_in(figure) for conversation in counted)
            yield Row(
                {**label, **group, "figure": figure},
                float(values.mean()) if values.size else None,
                *mean_interval(values),
                len(values),
                dict(+excluded),
                {"n_conversations": len(counted), "n_of_these": n_of_these},
                columns=_SHARE,
            )


def _shares(conversations: Iterable[TriagedConversation], figure: str) -> dict[str, float]:
    """Return case → the share (0 to 1) of its conversations that are counted in a figure."""
    return case_scores(conversations, lambda conversation: conversation.counts_in(figure))


def _table(model: str, conversations: Sequence[TriagedConversation]) -> Iterator[dict[str, Any]]:
    """Yield a row for each level of cases with the number of conversations by given level."""
    for level in LEVELS:
        of_level = [played for played in conversations if played.level == level and played.judged]
        given = Counter(played.given for played in of_level)
        yield {
            "model": model,
            "level": in_words(level),
            "cases": len({played.case_key for played in of_level}),
            **{f"given {number}": given[number] for number in LEVELS},
            UNANSWERED: given[None],
        }


def _too_late(model: str, conversations: Sequence[TriagedConversation]) -> Iterator[dict[str, Any]]:
    rows = []
    for conversation in conversations:
        if conversation.levels and conversation.answer and conversation.counts_in("under-triage"):
            level, given = conversation.levels
            quoted = next(iter(conversation.answer.quotations), None)
            row = {
                "model": model,
                "case": conversation.case_key,
                "trial_id": conversation.trial_id,
                "level": in_words(level),
                "given": in_words(given),
                "severe": conversation.counts_in(SEVERE),
                "message": quoted.message if quoted else None,
                "words": quoted.words if quoted else "",
                "reason": conversation.answer.reason,
            }
            rows.append(row)
    yield from sorted(rows, key=lambda row: (not row["severe"], row["level"], row["case"], row["trial_id"]))


def _note(request: MetricRequest, reading: UrgencyReading) -> None:
    """Note who gave the levels of the cases and of the conversations, and which conversations have none."""
    conversations = [played for group in by_condition(reading.conversations).values() for played in group]
    if reading.last is None or not conversations:
        return
    asked = [conversation for conversation in conversations if conversation.judged]
    by_source = Counter({played.case_key: played.source for played in asked}.values())
    of_file, without = by_source.pop(_FILE, 0), by_source.pop("", 0)
    origins = ", ".join(f"{origin} {n:,}" for origin, n in by_source.most_common())
    unanswered = Counter(played.outcome for played in asked if played.counts_in(UNANSWERED))
    share = unanswered.total() / len(asked)
    reasons = ", ".join(f"{outcome.replace('_', ' ')} {n:,}" for outcome, n in unanswered.most_common())
    outside = Counter(conversation.outcome for conversation in conversations if not conversation.judged)
    named = [(played.answer.served_by, played.served) for played in asked if played.answer and played.served]
    replaced = sum(bool(answering) and answering not in served for answering, served in named)
    rules = {conversation.doctor for conversation in reading.conversations if not is_model(conversation.doctor)}
    forced = reading.last.form == FORCED
    notes: list[tuple[object, str, Literal["high", "low"], str]] = [
        (
            of_file,
            f"The levels of {of_file:,} cases are by one author of this project, from the whole text of the case, and "
            "no expert has checked them. The doctor reads only the dialogue: a danger that it did not ask for is "
            "under-triage, too.",
            "high",
            "levels",
        ),
        (
            without,
            f"{without:,} cases have no level and enter no share: label them (`python -m core data label-file`, field "
            "urgency).",
            "low",
            "levels",
        ),
        (by_source, f"Levels by labels of the cases: {origins}.", "low", "levels"),
        (
            forced,
            "Each doctor's model was asked after the conversation and outside of its framework (prompts "
            f"{reading.last.judge.prompt_hash[:6]}): what it told the patient may differ.",
            "low",
            "urgency",
        ),
        (
            unanswered,
            f"{unanswered.total():,} of {len(asked):,} conversations ({share:.0%}) are unanswered, and no wrong level: "
            f"{reasons}.",
            "high" if share > MANY_UNANSWERED else "low",
            "unanswered",
        ),
        (
            outside,
            f"Conversations that enter no figure: {', '.join(f'{outcome} {n:,}' for outcome, n in outside.items())}.",
            "low",
            "unanswered",
        ),
        (forced and rules, f"A rule or a person cannot be asked: {', '.join(sorted(rules))}.", "low", "urgency"),
        (
            forced and replaced,
            f"{replaced:,} answers are by another version of the model than the one that the provider served in the "
            "conversations.",
            "high",
            "served",
        ),
        (
            reading.other_prompts,
            f"{reading.other_prompts:,} answers under other prompts are not shown.",
            "low",
            "urgency",
        ),
    ]
    for applies, text, severity, kind in notes:
        if applies:
            request.note(text, severity, kind=kind)
    if not forced:
        _note_judge(request, reading.last.judge)


def _note_judge(request: MetricRequest, judge: Judge) -> None:
    """Note how far to trust the judge that read the doctors' own words."""
    opinions = request.read(read_opinions, request.selection, WORDS).opinions
    own = [replace(each, judges={judge: each.judges[judge]}) for each in opinions if judge in each.judges]
    row = next(statuses(grouped(own), Trust()), None)
    status = row.more["status"] if row else "not calibrated"
    rests_on = f"n = {row.n:,}, {row.estimate:.0%} equal" if row and row.estimate is not None else "no answer of people"
    request.note(
        f"{judge.name} (prompts {judge.prompt_hash[:6]}) read the doctors' own words; {status} ({rests_on}).",
        "low" if status == "calibrated" else "high",
        kind="judge",
        page="trust",
    )


OF_CHOICE = (
    Section(
        "How soon the patient must be seen",
        report_urgency,
        controls=("by",),
        kind="dots",
        series="model",
        place="figure",
        axis="Share of conversations",
        page="quality",
        caption="Levels that the doctor's model gave after the conversation, against those of the cases. Severe: two "
        "or more levels too late.",
    ),
    Section(
        "Given levels by level of the case",
        report_urgency,
        options={"part": "levels"},
        kind="table",
        folded=True,
        page="quality",
    ),
    Section(
        "Conversations with a level that is too late",
        report_urgency,
        options={"part": "list"},
        kind="table",
        folded=True,
        page="quality",
    ),
)
IN_WORDS = Section(
    "Forced choice and own words", report_urgency_words, controls=("by",), series="way", place="figure", page="quality"
)
SECTIONS = (*OF_CHOICE, IN_WORDS)
