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
from core.frameworks.starts import URGENCY
from core.judging.judgement import Quotation
from core.measures.base import CASES_OF_RUNS, Columns, Listed, MetricRequest, Row, Section, metric
from core.measures.urgency.levels import LEVELS, is_severe, levels_of_files, triage_of
from core.stats.smoothed import mean_interval
from core.store.database import Store
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
class TriagedConversation:
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
    quotation: Quotation | None = None
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

    conversations: list[TriagedConversation]
    prompt_hash: str
    other_prompts: int = 0

    def by_condition(self) -> dict[str, list[TriagedConversation]]:
        """Return condition → its conversations, for the conditions that were asked."""
        groups: dict[str, list[TriagedConversation]] = defaultdict(list)
        for conversation in self.conversations:
            groups[conversation.model].append(conversation)
        return {
            model: conversations
            for model, conversations in groups.items()
            if any(conversation.asked for conversation in conversations)
        }


def read_urgency(store: Store, selection: Selection, prompt_hash: str = "") -> UrgencyReading:
    """Read the conversations of a selection with their levels; ``prompt_hash`` overrides the prompts used last."""
    with store.read() as cursor:
        conversations = urgency_conversations(cursor, selection)
        answers = urgency_answers(cursor, selection)
    if not prompt_hash and answers:
        prompt_hash = answers[-1].prompt_hash
    by_trial = {answer.trial_id: answer for answer in answers if answer.prompt_hash == prompt_hash}
    triaged = [_conversation(conversation, by_trial.get(conversation.trial_id)) for conversation in conversations]
    return UrgencyReading(triaged, prompt_hash, len(answers) - len(by_trial))


def _conversation(conversation: UrgencyConversation, answer: UrgencyAnswer | None) -> TriagedConversation:
    level, source = conversation.label, conversation.origin or ""
    if level is None and (of_file := levels_of_files().get(conversation.case_key)):
        level, source = of_file.level, _FILE
    unasked = TriagedConversation(
        conversation.trial_id,
        conversation.model,
        conversation.doctor,
        conversation.case_key,
        conversation.specialty,
        conversation.dataset,
        level,
        source,
        given=None,
        outcome=NOT_ASKED if conversation.ended else BROKEN_OFF,
    )
    if answer is None:
        return unasked
    return replace(
        unasked,
        given=answer.level if answer.outcome == "answered" else None,
        outcome=answer.outcome,
        quotation=answer.quotation,
        reason=answer.reason,
        other_version=bool(answer.served_by and conversation.served and answer.served_by not in conversation.served),
    )


@metric(
    "urgency",
    *CASES_OF_RUNS,
    "sample",
    empty="No doctor was asked how urgent a conversation is.",
    starts=(URGENCY,),
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
    _note(request, reading, [conversation for conversations in groups.values() for conversation in conversations])
    if part == "shares" and by is None:
        request.case_values = _case_values(groups)
    for model, conversations in groups.items():
        if part == "levels":
            yield from _table(model, conversations)
        elif part == "list":
            yield from _too_late(model, conversations)
        else:
            for label, group in _groups(conversations, by):
                yield from _share_rows({"model": model, **label}, group)


def _groups(
    conversations: Sequence[TriagedConversation], by: By | None
) -> Iterator[tuple[dict[str, str], Sequence[TriagedConversation]]]:
    if by is None:
        yield {}, conversations
        return
    groups: dict[str, list[TriagedConversation]] = defaultdict(list)
    for conversation in conversations:
        if by != "level":
            groups[getattr(conversation, by) or "unknown"].append(conversation)
        elif conversation.level is not None:
            groups[in_words(conversation.level)].append(conversation)
    for name in sorted(groups):
        yield {by: name}, groups[name]


def in_words(level: int) -> str:
    return f"{level} {LEVELS[level]}"


def _share_rows(label: dict[str, str], conversations: Sequence[TriagedConversation]) -> Iterator[Row]:
    answered = [conversation for conversation in conversations if conversation.levels]
    outside = Counter(conversation.outcome for conversation in conversations if not conversation.asked)
    asked = [conversation for conversation in conversations if conversation.asked]
    outside[NO_LEVEL] = sum(conversation.level is None for conversation in asked)
    with_level = [conversation for conversation in asked if conversation.level is not None]
    unanswered = Counter(conversation.outcome for conversation in with_level if conversation.given is None)
    for figure in FIGURES:
        counts = partial(TriagedConversation.counts_in, figure=figure)
        yield _row({**label, "figure": figure}, answered, counts, outside + unanswered)
    yield _row({**label, "figure": UNANSWERED}, with_level, lambda conversation: conversation.given is None, outside)


def _row(
    label: dict[str, str],
    conversations: Sequence[TriagedConversation],
    counts: Callable[[TriagedConversation], bool],
    excluded: Counter[str],
) -> Row:
    values = np.array(list(_by_case(conversations, counts).values()))
    more = {"n_conversations": len(conversations), "n_of_these": sum(map(counts, conversations))}
    mean = float(values.mean()) if values.size else None
    return Row(label, mean, *mean_interval(values), len(values), dict(+excluded), more, columns=_SHARE)


def _by_case(
    conversations: Iterable[TriagedConversation], counts: Callable[[TriagedConversation], bool]
) -> dict[str, float]:
    """Return case → the share (0 to 1) of its conversations that count."""
    of_case: dict[str, list[bool]] = defaultdict(list)
    for conversation in conversations:
        of_case[conversation.case_key].append(counts(conversation))
    return {case: sum(values) / len(values) for case, values in of_case.items()}


def _case_values(groups: dict[str, list[TriagedConversation]]) -> pd.DataFrame:
    rows = [
        (model, figure, case, share)
        for model, conversations in groups.items()
        for figure in FIGURES
        for case, share in _by_case(
            [conversation for conversation in conversations if conversation.levels],
            partial(TriagedConversation.counts_in, figure=figure),
        ).items()
    ]
    return pd.DataFrame(rows, columns=["model", "figure", "case_key", "value"])


def _table(model: str, conversations: Sequence[TriagedConversation]) -> Iterator[dict[str, Any]]:
    """Yield a row for each level of cases with the number of conversations by given level."""
    for level in LEVELS:
        of_level = [
            conversation for conversation in conversations if conversation.level == level and conversation.asked
        ]
        given = Counter(conversation.given for conversation in of_level)
        yield {
            "model": model,
            "level": in_words(level),
            "cases": len({conversation.case_key for conversation in of_level}),
            **{f"given {number}": given[number] for number in LEVELS},
            UNANSWERED: given[None],
        }


def _too_late(model: str, conversations: Sequence[TriagedConversation]) -> Iterator[dict[str, Any]]:
    late = [
        conversation for conversation in conversations if conversation.levels and conversation.counts_in("under-triage")
    ]
    for conversation in sorted(
        late,
        key=lambda conversation: (
            not conversation.counts_in(SEVERE),
            conversation.level,
            conversation.case_key,
            conversation.trial_id,
        ),
    ):
        assert conversation.levels is not None
        level, given = conversation.levels
        yield {
            "model": model,
            "case": conversation.case_key,
            "trial_id": conversation.trial_id,
            "level": in_words(level),
            "given": in_words(given),
            "severe": conversation.counts_in(SEVERE),
            "message": conversation.quotation.message if conversation.quotation else None,
            "words": conversation.quotation.words if conversation.quotation else "",
            "reason": conversation.reason,
        }


def _note(request: MetricRequest, reading: UrgencyReading, conversations: Sequence[TriagedConversation]) -> None:
    asked = [conversation for conversation in conversations if conversation.asked]
    if not asked:
        return
    by_source = Counter(
        conversation.source for conversation in {conversation.case_key: conversation for conversation in asked}.values()
    )
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
    if unanswered := Counter(conversation.outcome for conversation in asked if conversation.given is None):
        share = unanswered.total() / len(asked)
        reasons = ", ".join(f"{outcome.replace('_', ' ')} {n:,}" for outcome, n in unanswered.most_common())
        request.note(
            f"{unanswered.total():,} of {len(asked):,} conversations ({share:.0%}) are unanswered, and no wrong level: "
            f"{reasons}.",
            "high" if share > MANY_UNANSWERED else "low",
            kind="unanswered",
        )
    if outside := Counter(conversation.outcome for conversation in conversations if not conversation.asked):
        words = ", ".join(f"{outcome} {n:,}" for outcome, n in outside.items())
        request.note(f"Conversations that enter no figure: {words}.", kind="unanswered")
    rules = {conversation.doctor for conversation in reading.conversations if not is_model(conversation.doctor)}
    if rules:
        request.note(f"A rule or a person cannot be asked: {', '.join(sorted(rules))}.", kind="urgency")
    if other := sum(conversation.other_version for conversation in asked):
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
