"""Urgency by condition: exact, over-triage, under-triage and severe under-triage, against the levels of the cases.

The unit is the case: the conversations of a case are averaged first, and intervals (95 %) are those of a mean over
cases. Unanswered conversations and cases without a level are counted and enter no share of right or wrong levels.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from core.frameworks.casting import is_model
from core.measures.base import Columns, Listed, MetricRequest, Row, Section, metric
from core.measures.urgency.levels import LEVELS, is_severe, levels_of_files, triage_of
from core.stats.smoothed import mean_interval
from core.store.database import Store
from core.store.queries.rubric_judgements import RubricQuotation
from core.store.queries.urgency_answers import (
    UrgencyAnswer,
    UrgencyConversation,
    urgency_answers,
    urgency_conversations,
)
from core.store.selection import Selection

By = Literal["level", "specialty", "dataset"]
NO_LEVEL, NOT_ASKED, BROKEN_OFF = "no level", "not asked", "conversation broke off"
MANY_UNANSWERED = 0.1
"""A larger share of unanswered conversations makes the note on them severe."""
_SHARE = Columns("share", excluded="excluded")
_FILE = "data/urgency"


@dataclass(frozen=True)
class UrgencyTalk:
    """A conversation with the level of its case and the level that its doctor gave, each 1 to 5 or ``None``.

    ``source`` of the case's level: ``data/urgency``, or the origin of its label. ``outcome`` is that of the answer
    (``core.store.queries.urgency_answers.UrgencyOutcome``), ``not asked``, or that the conversation broke off.
    ``other_version``: the provider named another version of the model than in the conversations of its run.
    """

    trial_id: str
    model: str
    doctor: str
    case_key: str
    specialty: str
    dataset: str
    level: int | None
    source: str
    given: int | None
    outcome: str
    quotation: RubricQuotation | None = None
    reason: str = ""
    other_version: bool = False

    @property
    def asked(self) -> bool:
        return self.outcome not in (NOT_ASKED, BROKEN_OFF)

    @property
    def levels(self) -> tuple[int, int] | None:
        """The level of the case and the given one, if both count."""
        return None if self.level is None or self.given is None else (self.level, self.given)

    def counts_in(self, figure: str) -> bool:
        assert self.levels is not None, "only answered conversations have a triage"
        return is_severe(*self.levels) if figure == SEVERE else triage_of(*self.levels) == figure


SEVERE, UNANSWERED = "severe under-triage", "unanswered"
FIGURES = ("exact", "over-triage", "under-triage", SEVERE)


class UrgencyReading(NamedTuple):
    """The conversations of a selection under the prompts by which one was asked last; empty if none was asked.

    ``other_prompts`` is the number of answers under other prompts.
    """

    talks: list[UrgencyTalk]
    prompt_hash: str
    other_prompts: int = 0

    def by_condition(self) -> dict[str, list[UrgencyTalk]]:
        """Return condition → its conversations, for the conditions that were asked."""
        groups: dict[str, list[UrgencyTalk]] = defaultdict(list)
        for talk in self.talks:
            groups[talk.model].append(talk)
        return {model: talks for model, talks in groups.items() if any(talk.asked for talk in talks)}


def read_urgency(store: Store, selection: Selection, prompt_hash: str = "") -> UrgencyReading:
    """Read the conversations of a selection with their levels; ``prompt_hash`` overrides the prompts used last."""
    with store.read() as cursor:
        conversations = urgency_conversations(cursor, selection)
        answers = urgency_answers(cursor, selection)
    if not prompt_hash and answers:
        prompt_hash = answers[-1].prompt_hash
    by_trial = {answer.trial_id: answer for answer in answers if answer.prompt_hash == prompt_hash}
    talks = [_talk(talk, by_trial.get(talk.trial_id)) for talk in conversations]
    return UrgencyReading(talks, prompt_hash, len(answers) - len(by_trial))


def _talk(talk: UrgencyConversation, answer: UrgencyAnswer | None) -> UrgencyTalk:
    level, source = talk.label, talk.origin or ""
    if level is None and (of_file := levels_of_files().get(talk.case_key)):
        level, source = of_file.level, _FILE
    unasked = UrgencyTalk(
        talk.trial_id,
        talk.model,
        talk.doctor,
        talk.case_key,
        talk.specialty,
        talk.dataset,
        level,
        source,
        given=None,
        outcome=NOT_ASKED if talk.ended else BROKEN_OFF,
    )
    if answer is None:
        return unasked
    return replace(
        unasked,
        given=answer.level if answer.outcome == "answered" else None,
        outcome=answer.outcome,
        quotation=answer.quotation,
        reason=answer.reason,
        other_version=bool(answer.served_by and talk.served and answer.served_by not in talk.served),
    )


@metric(
    "urgency",
    "run",
    "models",
    "source",
    "cases",
    "datasets",
    "specialties",
    "sample",
    empty="No doctor was asked how urgent a conversation is: `python -m core job urgency`, or choose another --run.",
    page="failures",
)
def report_urgency(
    request: MetricRequest,
    part: Annotated[
        Literal["shares", "levels", "list"],
        "Shares, given levels by level of the case, or each conversation with a level that is too late.",
    ] = "shares",
    by: Annotated[By | None, "Split the shares by level of the case, specialty or data set."] = None,
) -> Iterator[Listed]:
    """Report how soon doctors would have the patients seen, against the levels of urgency of the cases.

    1 immediately, 2 within hours, 3 within a day, 4 by appointment, 5 no appointment. Exact, over-triage and
    under-triage add up to 1; severe under-triage, two or more levels too late, is a part of under-triage.
    """
    reading = request.read(read_urgency, request.selection)
    groups = reading.by_condition()
    _note(request, reading, [talk for talks in groups.values() for talk in talks])
    if part == "shares" and by is None:
        request.case_values = _case_values(groups)
    for model, talks in groups.items():
        if part == "levels":
            yield from _table(model, talks)
        elif part == "list":
            yield from _too_late(model, talks)
        else:
            for label, group in _groups(talks, by):
                yield from _share_rows({"model": model, **label}, group)


def _groups(talks: Sequence[UrgencyTalk], by: By | None) -> Iterator[tuple[dict[str, str], Sequence[UrgencyTalk]]]:
    if by is None:
        yield {}, talks
        return
    groups: dict[str, list[UrgencyTalk]] = defaultdict(list)
    for talk in talks:
        if by != "level":
            groups[getattr(talk, by) or "unknown"].append(talk)
        elif talk.level is not None:
            groups[in_words(talk.level)].append(talk)
    for name in sorted(groups):
        yield {by: name}, groups[name]


def in_words(level: int) -> str:
    return f"{level} {LEVELS[level]}"


def _share_rows(label: dict[str, str], talks: Sequence[UrgencyTalk]) -> Iterator[Row]:
    answered = [talk for talk in talks if talk.levels]
    outside = Counter(talk.outcome for talk in talks if not talk.asked)
    asked = [talk for talk in talks if talk.asked]
    outside[NO_LEVEL] = sum(talk.level is None for talk in asked)
    with_level = [talk for talk in asked if talk.level is not None]
    unanswered = Counter(talk.outcome for talk in with_level if talk.given is None)
    for figure in FIGURES:
        counts = partial(UrgencyTalk.counts_in, figure=figure)
        yield _row({**label, "figure": figure}, answered, counts, outside + unanswered)
    yield _row({**label, "figure": UNANSWERED}, with_level, lambda talk: talk.given is None, outside)


def _row(
    label: dict[str, str], talks: Sequence[UrgencyTalk], counts: Callable[[UrgencyTalk], bool], excluded: Counter[str]
) -> Row:
    values = np.array(list(_by_case(talks, counts).values()))
    more = {"n_conversations": len(talks), "n_of_these": sum(map(counts, talks))}
    mean = float(values.mean()) if values.size else None
    return Row(label, mean, *mean_interval(values), len(values), dict(+excluded), more, columns=_SHARE)


def _by_case(talks: Iterable[UrgencyTalk], counts: Callable[[UrgencyTalk], bool]) -> dict[str, float]:
    """Return case → the share (0 to 1) of its conversations that count."""
    of_case: dict[str, list[bool]] = defaultdict(list)
    for talk in talks:
        of_case[talk.case_key].append(counts(talk))
    return {case: sum(values) / len(values) for case, values in of_case.items()}


def _case_values(groups: dict[str, list[UrgencyTalk]]) -> pd.DataFrame:
    rows = [
        (model, figure, case, share)
        for model, talks in groups.items()
        for figure in FIGURES
        for case, share in _by_case(
            [talk for talk in talks if talk.levels], partial(UrgencyTalk.counts_in, figure=figure)
        ).items()
    ]
    return pd.DataFrame(rows, columns=["model", "figure", "case_key", "value"])


def _table(model: str, talks: Sequence[UrgencyTalk]) -> Iterator[dict[str, Any]]:
    """Yield a row for each level of cases with the number of conversations by given level."""
    for level in LEVELS:
        of_level = [talk for talk in talks if talk.level == level and talk.asked]
        given = Counter(talk.given for talk in of_level)
        yield {
            "model": model,
            "level": in_words(level),
            "cases": len({talk.case_key for talk in of_level}),
            **{f"given {number}": given[number] for number in LEVELS},
            UNANSWERED: given[None],
        }


def _too_late(model: str, talks: Sequence[UrgencyTalk]) -> Iterator[dict[str, Any]]:
    late = [talk for talk in talks if talk.levels and talk.counts_in("under-triage")]
    for talk in sorted(late, key=lambda talk: (not talk.counts_in(SEVERE), talk.level, talk.case_key, talk.trial_id)):
        assert talk.levels is not None
        level, given = talk.levels
        yield {
            "model": model,
            "case": talk.case_key,
            "trial_id": talk.trial_id,
            "level": in_words(level),
            "given": in_words(given),
            "severe": talk.counts_in(SEVERE),
            "message": talk.quotation.message if talk.quotation else None,
            "words": talk.quotation.words if talk.quotation else "",
            "reason": talk.reason,
        }


def _note(request: MetricRequest, reading: UrgencyReading, talks: Sequence[UrgencyTalk]) -> None:
    asked = [talk for talk in talks if talk.asked]
    if not asked:
        return
    by_source = Counter(talk.source for talk in {talk.case_key: talk for talk in asked}.values())
    if of_file := by_source.pop(_FILE, 0):
        request.note(
            f"The levels of {of_file:,} cases are by one author of this project, from the whole text of the case, and "
            "no expert has checked them. The doctor reads only the dialogue: a danger that it did not ask for is "
            "under-triage, too.",
            "high",
            kind="levels",
        )
    if without := by_source.pop("", 0):
        request.note(
            f"{without:,} cases have no level and enter no share: label them (`python -m core data label-file`, field "
            "urgency).",
            kind="levels",
        )
    if by_source:
        origins = ", ".join(f"{origin} {n:,}" for origin, n in by_source.most_common())
        request.note(f"Levels by labels of the cases: {origins}.", kind="levels")
    request.note(
        f"Each doctor's model was asked after the conversation and outside of its framework (prompts urgency "
        f"{reading.prompt_hash[:6]}): what it told the patient may differ.",
        kind="urgency",
    )
    if unanswered := Counter(talk.outcome for talk in asked if talk.given is None):
        share = unanswered.total() / len(asked)
        reasons = ", ".join(f"{outcome.replace('_', ' ')} {n:,}" for outcome, n in unanswered.most_common())
        request.note(
            f"{unanswered.total():,} of {len(asked):,} conversations ({share:.0%}) are unanswered, and no wrong level: "
            f"{reasons}.",
            "high" if share > MANY_UNANSWERED else "low",
            kind="unanswered",
        )
    if outside := Counter(talk.outcome for talk in talks if not talk.asked):
        words = ", ".join(f"{outcome} {n:,}" for outcome, n in outside.items())
        request.note(f"Conversations that enter no figure: {words}.", kind="unanswered")
    rules = {talk.doctor for talk in reading.talks if not is_model(talk.doctor)}
    if rules:
        request.note(f"A rule or a person cannot be asked: {', '.join(sorted(rules))}.", kind="urgency")
    if other := sum(talk.other_version for talk in asked):
        request.note(
            f"{other:,} answers are by another version of the model than the one that the provider served in the "
            "conversations.",
            "high",
            kind="served",
        )
    if reading.other_prompts:
        request.note(f"{reading.other_prompts:,} answers under other prompts are not shown.", kind="urgency")


FIGURES_SECTION = Section(
    "How soon the patient must be seen",
    report_urgency,
    controls=("by",),
    kind="dots",
    series="model",
    place="figure",
    axis="Share of conversations",
    page="failures",
    caption="Levels that the doctor's model gave after the conversation, against those of the cases. Severe: two or "
    "more levels too late.",
)
LEVELS_SECTION = Section(
    "Given levels by level of the case",
    report_urgency,
    options={"part": "levels"},
    kind="table",
    folded=True,
    page="failures",
)
LATE_SECTION = Section(
    "Conversations with a level that is too late",
    report_urgency,
    options={"part": "list"},
    kind="table",
    folded=True,
    page="failures",
)
SECTIONS = (FIGURES_SECTION, LEVELS_SECTION, LATE_SECTION)
