"""Replies that a real patient would not give: how often, and the rule for medical terms next to models and experts.

The share of conversations with at least one hit, and hits per 100 replies. 95 % intervals resample cases with all their
conversations (``core.stats.smoothed``).

The experts of the authors' release judged for a whole conversation whether the patient uses medical terms. Their
workbooks contain the conversations, so that the rule reads the same words; ``core.measures.experts.adjudication``
breaks ties.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Annotated, Any, ClassVar, Literal

import pandas as pd

from core.asking.scene import Dialogue, Turn
from core.errors import UsageError
from core.frameworks.starts import CAMPAIGN, TERMS, Missing
from core.judging.patient_rule import (
    ABOUT,
    KINDS,
    PRECISE,
    RULES,
    VERSION,
    ReplyMarkKind,
    marks_in,
    replies_of,
    terms_in,
)
from core.measures.base import (
    CASES_OF_RUNS,
    Columns,
    Evidence,
    Listed,
    Measure,
    MetricRequest,
    Note,
    Record,
    Row,
    Score,
    Section,
    bounded,
    metric,
)
from core.measures.conversations import case_sums
from core.measures.experts.adjudication import decisions_of
from core.measures.experts.workbooks import release_review, release_rows
from core.stats.differences import paired_counts
from core.stats.intervals import NOTHING, Interval, wilson
from core.stats.ratios import ratio
from core.stats.smoothed import ratio_interval
from core.store.database import Store
from core.store.queries.judgements import judgements
from core.store.queries.scores import Trials
from core.store.queries.scores_of_patients import conversations, hits
from core.store.selection import Selection, select

By = Literal["patient", "run", "doctor", "specialty", "dataset"]
TERMS_FORM = "patient_terms"
_COLUMN: dict[By, str] = {"run": "run_id"}


class PatientMarks(Measure):
    """Replies that a real patient would not give: medical terms, leaks, refusals, confusions of role.

    ``replies`` is the number of replies, and each kind the number of its hits; the evidence has the words and the rule.
    """

    name = "patient_marks"
    title = "What patients say"
    page = "trust"
    version: ClassVar[str] = VERSION
    reads: ClassVar[Trials] = "replies"

    def scores(self, record: Record) -> Iterator[Score]:
        yield Score("replies", len(replies_of(record.dialogue)))
        marks = marks_in(record.case, record.dialogue)
        for kind in KINDS:
            hits = tuple(Evidence(m.turn, m.words, m.start, m.detail) for m in marks if m.kind == kind)
            yield Score(kind, len(hits), hits)


PATIENT_MARKS = PatientMarks()


def patient_rates(
    store: Store,
    by: By = "patient",
    selection: Selection | None = None,
    kinds: Sequence[ReplyMarkKind] = KINDS,
    *,
    pooled: bool = False,
    case_values: list[pd.DataFrame] | None = None,
) -> list[Row]:
    """Return a row for each group, condition and kind, from the stored marks; no conversation is marked here.

    The estimate is the share (0 to 1) of conversations with at least one hit: ``with_hit`` of ``n`` conversations of
    ``cases`` cases; ``per_100`` is the number of hits per 100 ``replies``. Both are ``None`` unless the kind is
    ``claimed`` (``core.judging.patient_rule.About``); ``read_right`` of the ``read`` hits of the kind were right.
    Plain patients and each persona are separate groups; ``condition`` is that of the conversations, or the number of
    pooled conditions.

    The grader, the solver and the summariser do not distinguish conditions here, because they do not speak to the
    patient. ``pooled`` merges the conditions of a group, persona, protocol and data set. Conversations that are not
    marked are left out. The shares of cases behind the estimates
    are appended to ``case_values`` (``MetricRequest.case_values``).
    """
    with store.read() as cursor:
        marked = conversations(cursor, PATIENT_MARKS, selection)
        runs = Selection(runs=marked["run_id"].unique().tolist())
        conditions = select(cursor, runs, without=("grader", "reader", "solver", "summariser"))
    condition_of = {run: condition.name for condition in conditions for run in condition.runs}
    data_set = marked["case_key"].map({key: key.partition("/")[0] for key in marked["case_key"].unique()})
    marked = marked.assign(condition=marked["run_id"].map(condition_of), data_set=data_set)
    place = [_COLUMN.get(by, by), "persona", "protocol", "data_set" if pooled else "condition"]
    marked[place] = marked[place].fillna("")
    rows: list[Row] = []
    for (group, persona, protocol, _), members in marked.groupby(place):
        names = members["condition"].unique()
        pool = f"{members['data_set'].iat[0]}, {len(names)} conditions combined" if len(names) > 1 else str(names[0])
        label = {by: str(group), "condition": pool, "persona": str(persona) or "plain", "protocol": str(protocol)}
        rows += _rates(label, members, kinds)
        if case_values is not None:
            shares = (members[list(kinds)] > 0).groupby(members["case_key"], observed=True).mean()
            values = shares[[kind for kind in kinds if ABOUT[kind].claimed]].melt(
                ignore_index=False, var_name="kind", value_name="value"
            )
            figure = values.pop("kind").astype(str) + f" {persona} {protocol}"
            case_values.append(values.assign(model=f"{group} {pool}", figure=figure).reset_index())
    return rows


def patient_hits(
    store: Store,
    kinds: Sequence[ReplyMarkKind],
    selection: Selection | None = None,
    *,
    words: str | None = None,
    limit: int | None = 50,
) -> list[dict[str, Any]]:
    with store.read() as cursor:
        return hits(cursor, PATIENT_MARKS, kinds, selection, words=words, limit=limit)


def hit_sample(
    store: Store, kind: ReplyMarkKind, number: int = 20, seed: int = 20, selection: Selection | None = None
) -> list[dict[str, Any]]:
    """Return ``number`` stored hits of a kind, drawn at random without replacement (all if there are fewer)."""
    stored = patient_hits(store, [kind], selection, limit=None)
    return random.Random(seed).sample(stored, min(number, len(stored)))


def _rates(label: Mapping[str, str], marked: pd.DataFrame, kinds: Sequence[ReplyMarkKind]) -> Iterator[Row]:
    by_case, of_kinds = marked.groupby("case_key", observed=True), marked[list(kinds)]
    n, replies, hits = by_case.size(), by_case["replies"].sum(), by_case[list(kinds)].sum()
    with_hit = (of_kinds > 0).groupby(marked["case_key"], observed=True).sum()
    counts = {"n": int(n.sum()), "cases": len(n)}
    for kind in kinds:
        claimed = ABOUT[kind].claimed  # a rule that is wrong too often gets no rate; its hits can still be read
        share, per_reply = (
            ratio_interval(of_kind[kind], of) if claimed else NOTHING
            for of_kind, of in ((with_hit, n), (hits, replies))
        )
        yield Row(
            {**label, "kind": kind},
            ratio(with_hit[kind], n) if claimed else None,
            *share,
            len(n),
            more={
                "with_hit": int(with_hit[kind].sum()),
                **counts,
                "hits": int(hits[kind].sum()),
                "replies": int(replies.sum()),
                **bounded(
                    "per_100",
                    100 * ratio(hits[kind], replies) if claimed else None,
                    Interval(*(100 * bound for bound in per_reply)),
                ),
                **dict(zip(("read_right", "read"), ABOUT[kind].read, strict=True)),
            },
            columns=Columns("rate", n=None),
        )


def judge_against_rule(store: Store, selection: Selection | None = None) -> list[Row]:
    """Return a row for each model and prompt that judged conversations of a selection; no model is asked here.

    The estimate is the share (0 to 1) of ``n`` conversations of ``cases`` cases in which the judge found a term,
    ``rule_share`` that of the rule; ``both``, ``judge_only``, ``rule_only`` and ``neither`` count conversations by who
    found a term. ``agreement`` is the share with equal results, ``kappa`` is Cohen's. ``dropped`` counts terms that the
    model named and that are not in the reply. Conversations without a judgement (``failed``), or not marked by the
    present rules (``unmarked``), are excluded.
    """
    selection = selection or Selection()
    with store.read() as cursor:
        judged = judgements(cursor, [TERMS_FORM], selection=selection, kinds=["model"])
        marked = conversations(cursor, PATIENT_MARKS, selection) if judged else None
    if marked is None:
        return []
    rule = {
        f"talk:{trial}": (case, bool(terms > 0))
        for trial, terms, case in marked[["trial_id", "medical_term", "case_key"]].itertuples(index=False)
    }
    rows = []
    for judge, group in groupby(judged, key=lambda judgement: judgement.judge):
        # the wording of the question may have changed: of each conversation the newest judgement with a value counts
        newest = {j.subject: j for j in sorted(group, key=lambda j: (j.value is not None, j.at))}
        usable = [judgement for judgement in newest.values() if judgement.value is not None]
        compared = [
            (*rule[judgement.subject], judgement.value != "0") for judgement in usable if judgement.subject in rule
        ]
        by_rule, by_judge = (case_sums((found[0], found[side], 1) for found in compared)[0] for side in (1, 2))
        _, n = case_sums((case, 0, 1) for case, *_ in compared)
        table = paired_counts([found for *_, found in compared], [found for _, found, _ in compared])
        excluded = {"failed": len(newest) - len(usable), "unmarked": len(usable) - len(compared)}
        rows.append(
            Row(
                {"judge": judge.name, "prompts": judge.prompt_hash, "n": len(compared), "cases": len(n)},
                ratio(by_judge, n),
                *ratio_interval(by_judge, n),
                len(n),
                excluded,
                {
                    **bounded("rule_share", ratio(by_rule, n), ratio_interval(by_rule, n), "rule"),
                    **dict(zip(("both", "judge_only", "rule_only", "neither"), table, strict=True)),
                    "agreement": table.agreement,
                    "kappa": table.kappa,
                    "dropped": sum(q.state == "unverified" for judgement in usable for q in judgement.quotations),
                    "failed": excluded["failed"],
                },
                columns=Columns("judge_share", "judge_low", "judge_high", None),
            )
        )
    return rows


PAPER = (13, 180)
"""Conversations with medical terms by the experts, and all that they read (Johri et al. 2025, Results)."""
ALL = "all"
_SPEAKER = re.compile(r"\b(Doctor|Patient)-AI\s*:")


def terms_against_experts(store: Store) -> list[Row]:
    """Return rule and experts on the same conversations, ``ALL`` of them first, then by the doctor's model.

    The estimate is the share (0 to 1) with a medical term by the experts, ``rule`` that by the rule; ``both``,
    ``rule_only``, ``experts_only`` and ``neither`` count conversations by who found a term. Precision and recall of the
    rule take the experts' answer as the truth (NaN if there is nothing to count); ``kappa`` is Cohen's, intervals are
    Wilson's. ``no_text`` counts conversations whose words are in no workbook. Raises ``AnamnesisError`` if the
    release's workbooks are not imported.
    """
    rows = release_rows(store)
    words = {(row.model, row.case): row.conversation for row in reversed(rows) if row.conversation}
    terms = {key: bool(terms_in(dialogue_of(conversation))) for key, conversation in words.items()}
    decisions = decisions_of(release_review(rows))
    decided = [d for d in decisions if d.question == "medical_terms" and d.answer is not None]
    result = []
    for model in (ALL, *dict.fromkeys(decision.model for decision in decided)):
        of_model = [decision for decision in decided if model in (ALL, decision.model)]
        with_text = [decision for decision in of_model if (decision.model, decision.case) in terms]
        by_rule = [terms[decision.model, decision.case] for decision in with_text]
        table = paired_counts(by_rule, [decision.answer == "yes" for decision in with_text])
        both, rule, experts, n = table.both, table.both + table.first_only, table.both + table.second_only, sum(table)
        shares = {"rule": (rule, n), "precision": (both, rule), "recall": (both, experts)}
        parts = [bounded(name, x / y if y else math.nan, wilson(x, y)) for name, (x, y) in shares.items()]
        result.append(
            Row(
                {"model": model, "n": n},
                experts / n if n else math.nan,
                *wilson(experts, n),
                n,
                more={
                    **parts[0],
                    **parts[1],
                    **parts[2],
                    "kappa": table.kappa,
                    "both": both,
                    "rule_only": table.first_only,
                    "experts_only": table.second_only,
                    "neither": table.neither,
                    "no_text": len(of_model) - n,
                },
                unit="conversations",
                columns=Columns("experts", "experts_low", "experts_high", None),
            )
        )
    return result


def dialogue_of(conversation: str) -> Dialogue:
    """Return the messages of a conversation in the text of a workbook, which has a label before each message."""
    _, *parts = _SPEAKER.split(conversation)
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return tuple(Turn("doctor" if label == "Doctor" else "patient", text.strip()) for label, text in pairs)


PatientPart = Literal["rates", "hits", "sample", "experts", "judge", "rules"]


@metric(
    "patients",
    *CASES_OF_RUNS,
    "pool",
    "sample",
    empty="There is nothing to report: no stored conversation fits, or there is no such reply.",
    measure=PATIENT_MARKS,
    starts=(CAMPAIGN,),
    page="trust",
)
def report(
    request: MetricRequest,
    part: Annotated[
        PatientPart,
        "Rates, the hits, a random sample of them, the rule compared with experts or a model, or the rules' precision.",
    ] = "rates",
    by: Annotated[By, "Group rates by this; plain patients and personas are always separate."] = "patient",
    kind: Annotated[ReplyMarkKind | None, "Only this kind of hit."] = None,
    words: Annotated[str | None, "Only hits whose words contain this."] = None,
    limit: Annotated[int, "How many hits to print, of each kind."] = 20,
    seed: Annotated[int, "Of the random sample."] = 20,
) -> Iterator[Listed]:
    """Report medical terms, leaks, refusals, role confusion of simulated patients."""
    if limit < 1:
        raise UsageError("--limit is at least 1.")
    store = request.store
    selection = replace(request.selection, formats=None, question_types=None, pooled=False)
    kinds: list[ReplyMarkKind] = [kind] if kind else list(KINDS)
    if part == "rules":
        yield from rule_precisions()
    elif part == "experts":
        yield from terms_against_experts(store)
        request.note(f"The paper counts {PAPER[0]} of {PAPER[1]} ({PAPER[0] / PAPER[1]:.2%}).")
    elif part == "judge":
        by_judge = judge_against_rule(store, selection)
        if not by_judge:
            raise Missing("No model has judged the patients of these conversations.", TERMS)
        yield from by_judge
    elif part == "rates":
        case_values: list[pd.DataFrame] = []
        rows = patient_rates(store, by, selection, kinds, pooled=request.selection.pooled, case_values=case_values)
        yield from rows
        request.case_values = pd.concat(case_values) if case_values else None
        request.notes += _unclaimed_notes(rows)
    elif part == "sample":
        for chosen_kind in kinds:
            yield from hit_sample(store, chosen_kind, limit, seed, selection)
    else:
        yield from patient_hits(store, kinds, selection, words=words, limit=limit)


def rule_precisions() -> Iterator[Row]:
    """Yield a row for each kind with the share (0 to 1) of the hits that were right when they were read."""
    for kind, about in ABOUT.items():
        right, read = about.read
        yield Row(
            {"kind": kind},
            right / read if read else None,
            *wilson(right, read),
            read,
            more={
                "right": right,
                "rates": "yes" if about.claimed else "no",
                "before": "–" if about.first is None else "{} of {}".format(*about.first),
                "rule": about.rule,
                "false_alarms": about.false_alarms,
            },
            unit="hits",
            columns=Columns("precision", n="read"),
        )


def _unclaimed_notes(rows: Sequence[Row]) -> list[Note]:
    """Return a note on the kinds of hits without a rate, with their numbers of hits; empty if all have one."""
    hits_of = {
        kind: sum(row["hits"] for row in rows if row["kind"] == kind) for kind in ABOUT if not ABOUT[kind].claimed
    }
    kinds = {row["kind"] for row in rows}
    listed = "; ".join(
        f"{ABOUT[kind].name.lower()} ({ABOUT[kind].read_in_words}), {n:,} times"
        for kind, n in hits_of.items()
        if kind in kinds
    )
    words = (
        f"No rate for rules that were right in fewer than {PRECISE:.0%} of what was read, or of which nothing could be "
        f"read: {listed}. What they find is listed."
    )
    return [Note("excluded", words)] if listed else []


_KIND_WORDS: dict[str, str] = {kind: about.name for kind, about in ABOUT.items()}
SECTIONS = (
    Section(
        "Conversations with an error",
        report,
        {"part": "rates"},
        kind="dots",
        place="kind",
        axis="Conversations with an error",
        columns=(
            "kind",
            "rate",
            "ci_low",
            "ci_high",
            "patient",
            "doctor",
            "run",
            "dataset",
            "specialty",
            "condition",
            "persona",
            "protocol",
            "with_hit",
            "n",
            "cases",
            "hits",
            "replies",
            "per_100",
            "per_100_low",
            "per_100_high",
            "read_right",
            "read",
        ),
        heads={
            "rate": "With an error",
            "with_hit": "Conversations with one",
            "hits": "Errors",
            "n": "Conversations",
            "per_100": "Errors per 100 replies",
            "per_100_low": "Per 100, low",
            "per_100_high": "Per 100, high",
            "read_right": "Right when read",
            "protocol": "Framework",
        },
        words=_KIND_WORDS,
        caption="Share of conversations in which a rule finds such a reply.",
        help="95 % intervals resample cases; they are Wilson’s where each case has one conversation.",
        page="trust",
    ),
    Section(
        "Replies with an error",
        report,
        {"part": "hits", "limit": 1_000},
        kind="table",
        columns=("kind", "words", "detail", "reply", "turn", "patient", "doctor", "case", "question", "trial_id"),
        heads={
            "kind": "Kind",
            "words": "Words",
            "detail": "Why",
            "reply": "Reply",
            "turn": "Message",
            "patient": "Patient",
            "doctor": "Doctor",
            "case": "Case",
            "question": "Question",
            "trial_id": "Trial id",
        },
        words=_KIND_WORDS,
        page="trust",
    ),
    Section(
        "The rule for medical terms against experts",
        report,
        {"part": "experts"},
        kind="dots",
        axis="Experts found a term",
        heads={
            "model": "Doctor",
            "n": "Conversations",
            "rule": "The rule found one",
            "kappa": "Cohen’s kappa",
            "experts_low": "Low",
            "experts_high": "High",
        },
        help="Experts’ answers and the rule on the same conversations, independent of the filters above. In the "
        f"paper, experts found medical terms in {PAPER[0]} of {PAPER[1]} conversations ({PAPER[0] / PAPER[1]:.2%}; "
        "Johri et al. 2025, Results). The rule finds more: it counts every term of its lexicon, while the experts "
        "judged conversations as a whole. Precision: the share of the rule’s conversations with a term in which the "
        "experts found one. Recall: the share of the experts’ in which the rule found one.",
        page="trust",
    ),
    Section(
        "The rule for medical terms against models",
        report,
        {"part": "judge"},
        kind="dots",
        axis="The model found a term",
        heads={"n": "Conversations", "rule_share": "The rule found one", "judge_low": "Low", "judge_high": "High"},
        page="trust",
    ),
    Section(
        "The rules and their precision",
        report,
        {"part": "rules"},
        kind="dots",
        place="kind",
        axis="Right of what was read",
        heads={
            "kind": "Kind",
            "precision": "Right",
            "read": "Read",
            "right": "Of them right",
            "rates": "Rates stated",
            "before": "Right before mending",
            "rule": "What counts",
            "false_alarms": "False alarms",
        },
        words=_KIND_WORDS,
        help=f"Version {RULES} of the rules. Precision: up to 20 random findings of each kind from GPT-4’s patient in "
        "the public release, read by two readers after one correction of the rules (docs/reliability.md).",
        page="trust",
    ),
)
RATES, HITS, AGAINST_EXPERTS, AGAINST_MODELS, RULES_READ = SECTIONS
