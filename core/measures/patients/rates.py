"""How often simulated patients go wrong, and the rule for medical terms beside models and experts.

The share of conversations with at least one hit, and hits per 100 replies. 95 % intervals resample cases with all their
conversations (``core.stats.smoothed``).

Experts of the authors' release were asked of a whole conversation whether the patient uses medical terms. The workbooks
hold the words of each, so that the rule sees what they saw; ties are broken as ``core.measures.experts.adjudication``
says.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd

from core.asking.scene import Dialogue, Turn
from core.errors import AnamnesisError, UsageError
from core.measures.base import Asked, Columns, Listed, Note, Row, Section, bounded, metric
from core.measures.experts.adjudication import decide
from core.measures.experts.workbooks import release_rows
from core.measures.missing import measure_missing
from core.measures.patients.rules import ABOUT, PATIENT_MARKS, PRECISE, marks_in, terms_in
from core.stats.differences import paired_counts
from core.stats.intervals import Interval, wilson
from core.stats.ratios import ratio
from core.stats.smoothed import ratio_interval
from core.store.database import Store
from core.store.queries.cases import cases_of
from core.store.queries.patient_judgements import judgements
from core.store.queries.scores_of_patients import KINDS, Hit, Kind, Mark, hits, talks
from core.store.queries.trials import stored_trial
from core.store.queries.utterances import dialogues
from core.store.review_records import Judgement
from core.store.selection import Selection, select

By = Literal["patient", "run", "doctor", "specialty", "dataset"]
_COLUMN: dict[By, str] = {"run": "run_id"}


def patient_rates(
    store: Store,
    by: By = "patient",
    wanted: Selection | None = None,
    kinds: Sequence[Kind] = KINDS,
    *,
    pooled: bool = False,
) -> list[Row]:
    """Return a row for each group, condition and kind, from what is marked; nothing is marked here.

    The estimate is the share (0 to 1) of conversations with at least one hit: ``with_hit`` of ``n`` conversations of
    ``cases`` cases; ``per_100`` hits in a hundred of their ``replies``. Both are given only for kinds that are
    ``claimed`` (``core.measures.patients.rules.About``), of whose hits ``read_right`` of ``read`` were right. Plain
    patients and each persona are groups apart; ``condition`` is the one that the conversations share, or how many were
    pooled on purpose.

    Who grades, solves or summarises makes no condition here: none of them speaks to the patient. ``pooled`` puts the
    conditions of a group, persona, protocol and data set together on purpose, and says how many they are.
    ``core.measures.missing.count_missing`` says how many conversations are not marked and therefore left out.
    """
    with store.read() as cursor:
        found = talks(cursor, PATIENT_MARKS, wanted)
        runs = Selection(runs=found["run_id"].unique().tolist())
        named = select(cursor, runs, without=("grader", "reader", "solver", "summariser"))
    condition_of = {run: one.name for one in named for run in one.runs}
    data_set = found["case_key"].map({key: key.partition("/")[0] for key in found["case_key"].unique()})
    found = found.assign(condition=found["run_id"].map(condition_of), data_set=data_set)
    place = [_COLUMN.get(by, by), "persona", "protocol", "data_set" if pooled else "condition"]
    found[place] = found[place].fillna("")
    rows: list[Row] = []
    for (group, persona, protocol, _), members in found.groupby(place):
        names = members["condition"].unique()
        pool = f"{members['data_set'].iat[0]}, {len(names)} conditions pooled" if len(names) > 1 else str(names[0])
        label = {by: str(group), "condition": pool, "persona": str(persona) or "plain", "protocol": str(protocol)}
        rows += _rates(label, members, kinds)
    return rows


def patient_hits(
    store: Store, kind: Kind, wanted: Selection | None = None, *, words: str | None = None, limit: int | None = 50
) -> tuple[int, list[Hit]]:
    """Return how many kept hits of a kind there are under a filter, and the first by run, case, trial and turn.

    ``words`` keeps hits whose words hold it, in any case of letters.
    """
    with store.read() as cursor:
        return hits(cursor, PATIENT_MARKS, [kind], wanted, words=words, limit=limit)


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


def _rates(label: Mapping[str, str], looked: pd.DataFrame, kinds: Sequence[Kind]) -> Iterator[Row]:
    """Yield the rates of a group."""
    row_of, cases = pd.factorize(looked["case_key"], sort=True)
    by_talk = looked[list(kinds)].to_numpy(dtype=np.float64)
    numbers = np.column_stack([by_talk > 0, by_talk, np.ones(len(looked)), looked["replies"].to_numpy()])
    sums = np.zeros((len(cases), numbers.shape[1]))
    np.add.at(sums, row_of, numbers)
    n, replies = (int(total) for total in sums[:, -2:].sum(axis=0))
    for i, kind in enumerate(kinds):
        about, (hit, hits_) = ABOUT[kind], (int(sums[:, column].sum()) for column in (i, len(kinds) + i))
        share = ratio_interval(sums[:, i], sums[:, -2])
        per_reply = ratio_interval(sums[:, len(kinds) + i], sums[:, -1])
        # of rules that are wrong too often the hits are there to be read, without a rate
        rate, low, high = (hit / n, *share) if about.claimed else (None, None, None)
        counts = {"with_hit": hit, "n": n, "cases": len(cases), "hits": hits_, "replies": replies}
        hundred = bounded(
            "per_100", 100 * hits_ / replies if replies else math.nan, Interval(*(100 * bound for bound in per_reply))
        )
        read = dict(zip(("read_right", "read"), about.read, strict=True))
        yield Row(
            {**label, "kind": kind},
            rate,
            low,
            high,
            len(cases),
            more={**counts, **(hundred if about.claimed else dict.fromkeys(hundred)), **read},
            columns=Columns("rate", n=None),
        )


def judge_against_rule(store: Store, wanted: Selection | None = None) -> list[Row]:
    """Return a row for each model and prompt that judged conversations under a filter; nothing is judged here.

    The estimate is the share (0 to 1) of ``n`` conversations of ``cases`` cases in which the judge found a term,
    ``rule_share`` that of the rule; ``both``, ``judge_only``, ``rule_only`` and ``neither`` say who found one.
    ``agreement`` is the share on which they say the same, ``kappa`` Cohen's. ``dropped`` terms the model named that are
    not in the reply. Conversations without a judgement (``failed``), or at which the present rules have not looked
    (``unmarked``, excluded), count nowhere.
    """
    wanted = wanted or Selection()
    with store.read() as cursor:
        judged = judgements(cursor, wanted)
        marked = talks(cursor, PATIENT_MARKS, wanted) if judged else None
    if marked is None:
        return []
    rule = dict(zip(marked["trial_id"], marked["medical_term"] > 0, strict=True))
    rows = []
    for (model, prompt_hash), group in groupby(judged, key=lambda one: (one.model, one.prompt_hash)):
        members = list(group)
        looked = [one for one in members if one.terms is not None]
        seen = [one for one in looked if one.trial_id in rule]
        pairs = [(bool(one.terms), bool(rule[one.trial_id])) for one in seen]
        keys, row_of = np.unique(np.array([one.case_key for one in seen], dtype=str), return_inverse=True)
        sums = np.zeros((len(keys), 3))
        np.add.at(sums, row_of, np.array([(*pair, True) for pair in pairs], dtype=float).reshape(-1, 3))
        by_judge, by_rule, n = sums.T
        table = paired_counts([ours for ours, _ in pairs], [theirs for _, theirs in pairs])
        found = dict(zip(("both", "judge_only", "rule_only", "neither"), table, strict=True))
        left_out = {"failed": len(members) - len(looked), "unmarked": len(looked) - len(seen)}
        rows.append(
            Row(
                {"judge": model, "prompts": prompt_hash, "n": len(seen), "cases": len(keys)},
                ratio(by_judge, n),
                *ratio_interval(by_judge, n),
                len(keys),
                left_out,
                {
                    **bounded("rule_share", ratio(by_rule, n), ratio_interval(by_rule, n), "rule"),
                    **found,
                    "agreement": table.agreement,
                    "kappa": table.kappa,
                    "dropped": sum(one.dropped for one in looked),
                    "failed": left_out["failed"],
                },
                columns=Columns("judge_share", "judge_low", "judge_high", None),
            )
        )
    return rows


PAPER = (13, 180)
"""Conversations with medical terms by the experts, of those they read (Johri et al. 2025, Results)."""
ALL = "all"
_SPEAKER = re.compile(r"\b(Doctor|Patient)-AI\s*:")


def terms_against_experts(store: Store) -> list[Row]:
    """Return rule and experts on the same conversations, ``ALL`` of them first, then by doctor's model.

    The estimate is the share (0 to 1) with a medical term by the experts, ``rule`` that by the rule; ``both``,
    ``rule_only``, ``experts_only`` and ``neither`` say who found one. Precision and recall of the rule take the
    experts' word as the truth (NaN where nothing is counted); ``kappa`` is Cohen's, intervals are Wilson's. ``no_text``
    conversations are in no workbook with their words. Raises ``AnamnesisError`` where the release's workbooks are not
    imported.
    """
    rows = release_rows(store)
    words: dict[tuple[str, str], str] = {}
    for row in rows:
        if row.conversation:
            words.setdefault((row.model, row.case), row.conversation)
    terms = {key: bool(terms_in(dialogue_of(talk))) for key, talk in words.items()}
    said = [(row, row.answers.get("medical_terms")) for row in rows]
    decisions = decide(Judgement(r.model, r.case, "medical_terms", r.annotator, yes) for r, yes in said if yes)
    decided = [one for one in decisions if one.answer is not None]
    found = []
    for model in (ALL, *dict.fromkeys(one.model for one in decided)):
        of = [(terms.get((d.model, d.case)), d.answer == "yes") for d in decided if model in (ALL, d.model)]
        pairs = [(ours, theirs) for ours, theirs in of if ours is not None]
        table = paired_counts([ours for ours, _ in pairs], [theirs for _, theirs in pairs])
        both, rule, experts, n = table.both, table.both + table.first_only, table.both + table.second_only, sum(table)
        shares = {"rule": (rule, n), "precision": (both, rule), "recall": (both, experts)}
        parts = [bounded(name, x / y if y else math.nan, wilson(x, y)) for name, (x, y) in shares.items()]
        found.append(
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
                    "no_text": len(of) - n,
                },
                unit="conversations",
                columns=Columns("experts", "experts_low", "experts_high", None),
            )
        )
    return found


def dialogue_of(conversation: str) -> Dialogue:
    """Return the messages of a conversation as a workbook writes it down, a label before each."""
    _, *parts = _SPEAKER.split(conversation)
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return tuple(Turn("doctor" if label == "Doctor" else "patient", text.strip()) for label, text in pairs)


PatientPart = Literal["rates", "hits", "sample", "experts", "judge"]


@metric(
    "patients",
    "run",
    "models",
    "cases",
    "datasets",
    "specialties",
    "pool",
    empty="There is nothing to report: no conversation is stored that fits, or no hit of this kind. Start with "
    "`python -m core run --doctor reference/bayes`, or choose another --kind, --run or --models.",
    page="patients",
)
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
    marked_only: Annotated[bool, "Leave out what is not marked yet, instead of marking it first."] = False,
) -> Iterator[Listed]:
    """Report medical terms, leaks, refusals, role confusion of simulated patients."""
    if limit < 1:
        raise UsageError("--limit is at least 1.")
    store = asked.store
    if part == "experts":
        yield from terms_against_experts(store)
        asked.note(f"The paper counts {PAPER[0]} of {PAPER[1]} ({PAPER[0] / PAPER[1]:.2%}).")
        return
    wanted = replace(asked.selection, formats=None, question_types=None, pooled=False)
    if not marked_only:
        with asked.progress("conversations") as show:
            measure_missing(store, PATIENT_MARKS, wanted, progress=show)
    kinds: list[Kind] = [kind] if kind else list(KINDS)
    if part == "judge":
        found = judge_against_rule(store, wanted)
        if not found:
            raise AnamnesisError(
                "No model has judged these conversations: run `python -m core job terms --model M` first, or "
                "choose another --run or --models."
            )
        yield from found
    elif part == "rates":
        rows = patient_rates(store, by, wanted, kinds, pooled=asked.selection.pooled)
        yield from rows
        asked.notes += _unclaimed_notes(rows)
    else:
        for one in kinds:
            listed = (
                hit_sample(store, one, limit, seed, wanted)
                if part == "sample"
                else patient_hits(store, one, wanted, words=words, limit=limit)[1]
            )
            yield from map(_line, listed)


def _unclaimed_notes(rows: Sequence[Row]) -> list[Note]:
    """Return which kinds of hits have no rate and how many hits they have; nothing if all have one."""
    hits_of = {
        kind: sum(row["hits"] for row in rows if row["kind"] == kind) for kind in ABOUT if not ABOUT[kind].claimed
    }
    shown = {row["kind"] for row in rows}
    listed = "; ".join(
        f"{ABOUT[kind].name.lower()} ({ABOUT[kind].read_in_words}), {n:,} hits"
        for kind, n in hits_of.items()
        if kind in shown
    )
    words = (
        f"No rate is stated for rules of which fewer than {PRECISE:.0%} of the hits were right when read, or of which "
        f"none could be read: {listed}. Their hits are listed, to be read."
    )
    return [Note("excluded", words)] if listed else []


def _line(hit: Hit) -> dict[str, Any]:
    return {
        "kind": hit.mark.kind,
        "words": hit.mark.words,
        "detail": hit.mark.detail,
        "reply": hit.text,
        "question": hit.question,
        "trial": hit.trial_id,
        "turn": hit.mark.turn,
        "case": hit.case_key,
        "doctor": hit.doctor,
        "patient": hit.patient,
    }


SECTIONS = (
    Section(
        "Conversations with a hit",
        report,
        {"part": "rates", "marked_only": True},
        kind="rates",
        heads={
            "rate": "With a hit",
            "with_hit": "Hit",
            "n": "Conversations",
            "per_100": "Hits per 100 replies",
            "per_100_low": "Per 100, low",
            "per_100_high": "Per 100, high",
            "read_right": "Right when read",
        },
        caption="95 % intervals, cases resampled; Wilson’s where each case has one conversation.",
        page="patients",
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
        help=f"In the paper, experts found medical terms in the patient’s words in {PAPER[0]} of {PAPER[1]} "
        f"conversations ({PAPER[0] / PAPER[1]:.2%}; Johri et al. 2025, Results). Here are the experts’ answers and the "
        "rule on the same conversations, whatever is chosen above. The rule counts every term of its lexicon, the "
        "experts judged a conversation as a whole: the rule finds more. Precision: of the conversations in which the "
        "rule found a term, those in which the experts did. Recall: of those in which the experts found one, those in "
        "which the rule did.",
        page="patients",
    ),
    Section(
        "The rule for medical terms against models",
        report,
        {"part": "judge", "marked_only": True},
        kind="dots",
        axis="The model found a term",
        heads={"n": "Conversations", "rule_share": "The rule found one", "judge_low": "Low", "judge_high": "High"},
        page="patients",
    ),
)
RATES, AGAINST_EXPERTS, AGAINST_MODELS = SECTIONS
