"""How often simulated patients go wrong, and the rule for medical terms beside models and experts.

The share of conversations with at least one hit, and hits per 100 replies. 95 % intervals resample cases with all their
conversations (``core.stats.ratios``); where every case has one conversation, or none or all of them have a hit, the
share's interval is Wilson's over cases.

Experts of the authors' release were asked of a whole conversation whether the patient uses medical terms. The workbooks
hold the words of each, so that the rule sees what they saw; ties are broken as in ``core.measures.experts.figures``.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Annotated, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from core.agents.base import Dialogue, Turn
from core.errors import AnamnesisError, UsageError
from core.measures.base import Asked, Columns, Listed, Row, metric
from core.measures.experts.figures import decide
from core.measures.experts.workbooks import WorkbookRow, read_rows, workbooks_of
from core.measures.missing import measure_missing
from core.measures.patients.rules import ABOUT, PATIENT_MARKS, marks_in, terms_in
from core.stats.agreement import cohen_kappa, percent_agreement
from core.stats.bootstrap import SEED
from core.stats.intervals import NOTHING, Interval
from core.stats.proportions import wilson, wilson_if_alike
from core.stats.ratios import RESAMPLES, percentiles, ratio, share_interval
from core.stats.resampling import drawn_cases
from core.store.database import Store
from core.store.queries.failures import cases_of, dialogues
from core.store.queries.patients import KINDS, Hit, Kind, Mark, hits, judgements, talks
from core.store.queries.patients import Judgement as TermsJudgement
from core.store.queries.transcripts import stored_trial
from core.store.review_records import Judgement
from core.store.selection import Selection, select

By = Literal["patient", "run", "doctor", "specialty", "dataset"]
Floats = NDArray[np.float64]
_COLUMN: dict[By, str] = {"run": "run_id"}


@dataclass(frozen=True)
class PatientRate:
    """One kind of hit in one group of conversations; plain patients and each persona are groups apart.

    ``group`` is the value of what was grouped by (the patient's model, the run's id, …), ``condition`` the name of the
    one condition that its conversations share, or how many were pooled on purpose. ``n`` conversations of
    ``cases`` cases with ``replies`` replies were looked at; ``n_hit`` of them hold at least one of ``hits`` hits.
    ``rate`` is a share (0 to 1), ``per_100`` hits in a hundred replies; NaN where nothing was looked at. Rates are
    claimed only where the rule is right often enough (``core.measures.patients.rules.About.claimed``).
    """

    group: str
    persona: str
    protocol: str
    kind: Kind
    cases: int
    n: int
    n_hit: int
    rate: float
    interval: Interval
    hits: int
    replies: int
    per_100: float
    per_100_interval: Interval
    condition: str = ""


def patient_rates(
    store: Store, by: By = "patient", wanted: Selection | None = None, kinds: Sequence[Kind] = KINDS, *,
    pooled: bool = False,
) -> list[PatientRate]:  # fmt: skip
    """Return a row for each group, condition and kind, from what is marked; nothing is marked here.

    Who grades, solves or summarises makes no condition here: none of them speaks to the patient. ``pooled`` puts the
    conditions of a group, persona, protocol and data set together on purpose, and says how many they are.
    ``core.measures.missing.count_missing`` says how many conversations are not marked and therefore left out.
    """
    with store.read() as cursor:
        found = talks(cursor, PATIENT_MARKS, wanted)
        runs = Selection(runs=found["run_id"].unique().tolist())
        named = select(cursor, runs, without=("grader", "reader", "solver", "summariser"))
    condition_of = {run: one.name for one in named for run in one.runs}
    data_set = found["case_key"].str.split("/", n=1).str[0]
    found = found.assign(condition=found["run_id"].map(condition_of), data_set=data_set)
    place = [_COLUMN.get(by, by), "persona", "protocol", "data_set" if pooled else "condition"]
    found[place] = found[place].fillna("")
    return [
        replace(rate, condition=_pool(members) if pooled else str(members["condition"].iat[0]))
        for (group, persona, protocol, _), members in found.groupby(place)
        for rate in _rates((str(group), str(persona), str(protocol)), members, kinds)
    ]


def _pool(members: pd.DataFrame) -> str:
    """Return what stands for the conditions of conversations about one data set that are put together."""
    names = members["condition"].unique()
    return str(names[0]) if len(names) == 1 else f"{members['data_set'].iat[0]}, {len(names)} conditions pooled"


def patient_hits(
    store: Store, kind: Kind, wanted: Selection | None = None, *, words: str | None = None,
    limit: int | None = 50, offset: int = 0,
) -> tuple[int, list[Hit]]:  # fmt: skip
    """Return how many kept hits of a kind there are under a filter, and a page of them by run, case, trial and turn.

    ``words`` keeps hits whose words hold it, in any case of letters.
    """
    with store.read() as cursor:
        return hits(cursor, PATIENT_MARKS, [kind], wanted, words=words, limit=limit, offset=offset)


def trial_marks(store: Store, trial_id: str) -> tuple[Mark, ...]:
    """Return everything that is wrong with the replies of one conversation, marked now.

    For a transcript: ``start`` and ``end`` are places in the text of message ``turn``. Raises ``UsageError`` where
    no such conversation is stored.
    """
    with store.read() as cursor:
        held = stored_trial(cursor, trial_id)
        key = (held.case_key, held.content_hash) if held else None
        case = cases_of(cursor, [key]).get(key) if key else None
        said = dialogues(cursor, [trial_id]).get(trial_id)
    if case is None or said is None:
        raise UsageError(f"No conversation {trial_id!r} with its case is stored: choose one from the list.")
    return tuple(marks_in(case, said))


def hit_sample(
    store: Store, kind: Kind, number: int = 20, seed: int = 20, wanted: Selection | None = None
) -> list[Hit]:
    """Return so many kept hits of a kind, drawn at random without replacement (all where there are fewer)."""
    found = patient_hits(store, kind, wanted, limit=None)[1]
    return random.Random(seed).sample(found, min(number, len(found)))


def _rates(place: tuple[str, str, str], looked: pd.DataFrame, kinds: Sequence[Kind]) -> list[PatientRate]:
    """Return the rates of a group; one draw of cases serves all kinds."""
    cases, row_of = np.unique(looked["case_key"].to_numpy(dtype=str), return_inverse=True)
    by_talk = looked[list(kinds)].to_numpy(dtype=np.float64)
    numbers = np.column_stack([by_talk > 0, by_talk, np.ones(len(looked)), looked["replies"].to_numpy()])
    sums = np.zeros((len(cases), numbers.shape[1]))
    np.add.at(sums, row_of, numbers)
    hit, said, (n, replies) = sums[:, : len(kinds)], sums[:, len(kinds) : -2], sums[:, -2:].T
    shares, per_100 = _resampled(sums, len(kinds))
    return [
        PatientRate(
            *place, kind, len(cases), int(n.sum()), int(hit[:, i].sum()), ratio(hit[:, i], n),
            _share_interval(int(hit[:, i].sum()), int(n.sum()), len(cases), shares[i]), int(said[:, i].sum()),
            int(replies.sum()), 100 * ratio(said[:, i], replies), _per_100(per_100[i], len(cases)),
        )
        for i, kind in enumerate(kinds)
    ]  # fmt: skip


def _resampled(sums: Floats, kinds: int) -> tuple[list[Interval], list[Interval]]:
    """Return for each kind the intervals of its share of conversations and of its hits in 100 replies."""
    if not len(sums):
        return [NOTHING] * kinds, [NOTHING] * kinds
    drawn = np.concatenate([block @ sums for block in drawn_cases(len(sums), RESAMPLES, SEED)])
    with np.errstate(divide="ignore", invalid="ignore"):
        shares, per_100 = drawn[:, :kinds] / drawn[:, -2:-1], 100 * drawn[:, kinds:-2] / drawn[:, -1:]
    n = len(sums)
    return [percentiles(column, n) for column in shares.T], [percentiles(column, n) for column in per_100.T]


def _share_interval(hit: int, n: int, cases: int, resampled: Interval) -> Interval:
    """As ``core.stats.ratios.share_interval``, of what is resampled already."""
    if n == cases:
        return wilson(hit, cases)
    return wilson_if_alike(resampled, hit / n, cases) if n else NOTHING


def _per_100(resampled: Interval, cases: int) -> Interval:
    """Return the interval of hits in 100 replies; where there is none, as if all replies of a case were alike."""
    return resampled if resampled.high else Interval(0.0, 100 * wilson(0, cases).high)


_WORDS = {True: "term", False: "none"}


@dataclass(frozen=True)
class JudgeAgreement:
    """A model judge and the rule on the same ``n`` conversations of ``cases`` cases.

    ``judge`` and ``rule`` are the shares (0 to 1) with a term by each; ``both``, ``judge_only``, ``rule_only`` and
    ``neither`` say who found one. ``agreement`` is the share on which they say the same, ``kappa`` Cohen's (NaN where
    undefined). ``dropped`` terms the model named that are not in the reply; ``failed`` conversations have no judgement
    and count nowhere, nor do ``unmarked`` ones, at which the present rules have not looked.
    """

    model: str
    prompt_hash: str
    cases: int
    n: int
    judge: float
    judge_interval: Interval
    rule: float
    rule_interval: Interval
    both: int
    judge_only: int
    rule_only: int
    neither: int
    agreement: float
    kappa: float
    dropped: int
    failed: int
    unmarked: int


def judge_against_rule(store: Store, wanted: Selection | None = None) -> list[JudgeAgreement]:
    """Return a row for each model and prompt that judged conversations under a filter; nothing is judged here."""
    wanted = wanted or Selection()
    with store.read() as cursor:
        judged = judgements(cursor, wanted)
        marked = talks(cursor, PATIENT_MARKS, wanted) if judged else None
    if marked is None:
        return []
    rule = dict(zip(marked["trial_id"], marked["medical_term"] > 0, strict=True))
    groups = groupby(judged, key=lambda one: (one.model, one.prompt_hash))
    return [_judge_agreement(model, prompt_hash, list(members), rule) for (model, prompt_hash), members in groups]


def _judge_agreement(
    model: str, prompt_hash: str, members: Sequence[TermsJudgement], rule: dict[str, bool]
) -> JudgeAgreement:
    looked = [one for one in members if one.terms is not None]
    seen = [one for one in looked if one.trial_id in rule]
    pairs = [(bool(one.terms), bool(rule[one.trial_id])) for one in seen]
    counts = Counter(pairs)
    said = [[_WORDS[ours], _WORDS[theirs]] for ours, theirs in pairs]
    judge, by_rule = (_share_of_talks([one.case_key for one in seen], [pair[who] for pair in pairs]) for who in (0, 1))
    return JudgeAgreement(
        model, prompt_hash, len({one.case_key for one in seen}), len(seen), *judge, *by_rule,
        counts[True, True], counts[True, False], counts[False, True], counts[False, False],
        percent_agreement(said, list(_WORDS.values())), cohen_kappa(said, list(_WORDS.values())),
        sum(one.dropped for one in looked), len(members) - len(looked), len(looked) - len(seen),
    )  # fmt: skip


def _share_of_talks(keys: Sequence[str], found: Sequence[bool]) -> tuple[float, Interval]:
    """Return the share of conversations with a term, and its interval over cases."""
    cases, row_of = np.unique(np.array(keys, dtype=str), return_inverse=True)
    hit = np.bincount(row_of, weights=np.array(found, dtype=float), minlength=len(cases))
    n = np.bincount(row_of, minlength=len(cases)).astype(float)
    return ratio(hit, n), share_interval(hit, n)


PAPER = (13, 180)
"""Conversations with medical terms by the experts, of those they read (Johri et al. 2025, Results)."""
ALL = "all"
_SPEAKER = re.compile(r"\b(Doctor|Patient)-AI\s*:")


@dataclass(frozen=True)
class TermsAgreement:
    """Rule and experts on the same conversations of a doctor's model (``ALL`` for every one).

    ``both``, ``rule_only``, ``experts_only`` and ``neither`` say who found a medical term. ``experts`` and ``rule`` are
    the shares (0 to 1) with a term by each, with Wilson intervals; precision and recall of the rule take the experts'
    word as the truth (NaN where nothing is counted); ``kappa`` is Cohen's. ``unmatched`` conversations have no text.
    """

    model: str
    n: int
    both: int
    rule_only: int
    experts_only: int
    neither: int
    experts: float
    experts_interval: Interval
    rule: float
    rule_interval: Interval
    precision: float
    precision_interval: Interval
    recall: float
    recall_interval: Interval
    kappa: float
    unmatched: int


@dataclass(frozen=True)
class JudgedTalk:
    """One conversation that experts decided on: whether they found medical terms, and the terms that the rule found.

    ``terms`` is ``None`` where no workbook holds its words.
    """

    model: str
    case: str
    experts: bool
    terms: tuple[str, ...] | None


def terms_against_experts(store: Store) -> list[TermsAgreement]:
    """Return the comparison over all conversations first, then by doctor's model.

    Raises ``AnamnesisError`` where the release's workbooks are not imported.
    """
    judged = judged_talks(store)
    models = list(dict.fromkeys(one.model for one in judged))
    return [_agreement(ALL, judged), *(_agreement(m, [one for one in judged if one.model == m]) for m in models)]


def judged_talks(store: Store) -> list[JudgedTalk]:
    """Return every conversation that the experts decided on, with the rule's terms; raises as above."""
    rows = [row for who, content in workbooks_of(store).items() for row in read_rows(content, who)]
    words: dict[tuple[str, str], str] = {}
    for row in rows:
        if row.conversation:
            words.setdefault((row.model, row.case), row.conversation)
    decisions = decide(one for row in rows for one in _judgements(row))
    return [
        JudgedTalk(one.model, one.case, one.answer == "yes", _terms(words.get((one.model, one.case))))
        for one in decisions
        if one.answer is not None
    ]


def dialogue_of(conversation: str) -> Dialogue:
    """Return the messages of a conversation as a workbook writes it down, a label before each."""
    _, *parts = _SPEAKER.split(conversation)
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return tuple(Turn("doctor" if label == "Doctor" else "patient", text.strip()) for label, text in pairs)


def _judgements(row: WorkbookRow) -> list[Judgement]:
    answer = row.answers.get("medical_terms")
    return [Judgement(row.model, row.case, "medical_terms", row.annotator, answer)] if answer else []


def _terms(conversation: str | None) -> tuple[str, ...] | None:
    return None if conversation is None else tuple(mark.words for mark in terms_in(dialogue_of(conversation)))


def _agreement(model: str, judged: Sequence[JudgedTalk]) -> TermsAgreement:
    pairs = [(bool(one.terms), one.experts) for one in judged if one.terms is not None]
    both, rule_only, experts_only = (pairs.count(pair) for pair in ((True, True), (True, False), (False, True)))
    n, rule, experts = len(pairs), both + rule_only, both + experts_only
    words = {True: "yes", False: "no"}
    kappa = cohen_kappa([[words[ours], words[theirs]] for ours, theirs in pairs], ["yes", "no"])
    return TermsAgreement(
        model, n, both, rule_only, experts_only, n - both - rule_only - experts_only,
        _share(experts, n), wilson(experts, n), _share(rule, n), wilson(rule, n),
        _share(both, rule), wilson(both, rule), _share(both, experts), wilson(both, experts), kappa, len(judged) - n,
    )  # fmt: skip


def _share(count: int, n: int) -> float:
    return count / n if n else float("nan")


PatientPart = Literal["rates", "hits", "sample", "experts", "judge"]


@metric(
    "patients", "run", "models", "pool",
    empty="There is nothing to report: no conversation is stored that fits, or no hit of this kind. Start with "
    "`python -m core run --doctor reference/bayes`, or choose another --kind, --run or --models.",
)  # fmt: skip
def report(
    asked: Asked,
    part: Annotated[
        PatientPart, "Rates, the hits, a random sample of them, or the rule beside experts or a model."
    ] = "rates",
    by: Annotated[By, "Group rates by this; plain patients and personas always apart."] = "patient",
    kind: Annotated[Kind | None, "Only this kind of hit."] = None,
    words: Annotated[str | None, "Only hits with this in their words."] = None,
    limit: Annotated[int, "How many hits to print, of each kind."] = 20,
    seed: Annotated[int, "Of the random sample."] = 20,
) -> Iterator[Listed]:  # fmt: skip
    """Report medical terms, leaks, refusals, role confusion of simulated patients."""
    if limit < 1:
        raise UsageError("--limit is at least 1.")
    store = asked.store
    if part == "experts":
        yield from map(_experts_row, terms_against_experts(store))
        asked.note(f"The paper counts {PAPER[0]} of {PAPER[1]} ({PAPER[0] / PAPER[1]:.2%}).")
        return
    wanted = Selection(runs=asked.selection.runs, models=asked.selection.models)
    with asked.progress("conversations") as show:
        measure_missing(store, PATIENT_MARKS, wanted, progress=show)
    kinds: list[Kind] = [kind] if kind else list(KINDS)
    if part == "judge":
        found = judge_against_rule(store, wanted)
        if not found:
            raise AnamnesisError(
                "No model has judged these conversations: run `python -m core judge-patients --model M` first, or "
                "choose another --run or --models."
            )
        yield from map(_judge_row, found)
    elif part == "rates":
        yield from (
            _rate_row(row, by) for row in patient_rates(store, by, wanted, kinds, pooled=asked.selection.pooled)
        )
    else:
        for one in kinds:
            drawn = part == "sample"
            listed = (
                hit_sample(store, one, limit, seed, wanted) if drawn
                else patient_hits(store, one, wanted, words=words, limit=limit)[1]
            )  # fmt: skip
            yield from map(_hit_row, listed)


def _rate_row(row: PatientRate, by: By) -> Row:
    about = ABOUT[row.kind]
    shown = about.claimed  # the hits are there to be read; a rate would claim that they are right
    right, read = about.read
    label = {by: row.group, "condition": row.condition, "persona": row.persona or "plain", "protocol": row.protocol,
             "kind": row.kind}  # fmt: skip
    per_100 = (row.per_100, *row.per_100_interval) if shown else (None, None, None)
    rate, low, high = (row.rate, *row.interval) if shown else (None, None, None)
    return Row(
        label, rate, low, high, row.cases,
        more={
            "with_hit": row.n_hit, "n": row.n, "cases": row.cases, "hits": row.hits, "replies": row.replies,
            **dict(zip(("per_100", "per_100_low", "per_100_high"), per_100, strict=True)), "read_right": right,
            "read": read,
        },
        columns=Columns("rate", n=None),
    )  # fmt: skip


def _hit_row(hit: Hit) -> Listed:
    return {
        "kind": hit.mark.kind, "words": hit.mark.words, "detail": hit.mark.detail, "reply": hit.text,
        "question": hit.question, "trial": hit.trial_id, "turn": hit.mark.turn, "case": hit.case_key,
        "doctor": hit.doctor, "patient": hit.patient,
    }  # fmt: skip


def _experts_row(one: TermsAgreement) -> Row:
    beside = ((f"{name}{end}", value) for name in ("rule", "precision", "recall") for end, value in zip(
        ("", "_low", "_high"), (getattr(one, name), *getattr(one, f"{name}_interval")), strict=True))  # fmt: skip
    counts = {"kappa": one.kappa, "both": one.both, "rule_only": one.rule_only, "experts_only": one.experts_only,
              "neither": one.neither, "no_text": one.unmatched}  # fmt: skip
    return Row(
        {"model": one.model, "n": one.n}, one.experts, *one.experts_interval, one.n, more={**dict(beside), **counts},
        unit="conversations", columns=Columns("experts", "experts_low", "experts_high", None),
    )  # fmt: skip


def _judge_row(one: JudgeAgreement) -> Row:
    rule = {"rule_share": one.rule, "rule_low": one.rule_interval.low, "rule_high": one.rule_interval.high}
    counts = ("both", "judge_only", "rule_only", "neither", "agreement", "kappa", "dropped", "failed")
    return Row(
        {"judge": one.model, "prompts": one.prompt_hash, "n": one.n, "cases": one.cases}, one.judge,
        *one.judge_interval, one.cases, more={**rule, **{name: getattr(one, name) for name in counts}},
        columns=Columns("judge_share", "judge_low", "judge_high", None),
    )  # fmt: skip
