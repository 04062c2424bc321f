"""CARE of each condition: accuracy, conversational efficiency and strategy, empathy, robustness; and habits.

Source: Oh, Park, Kim, arXiv 2512.10195, CARE. An item is a case under one condition; its figures are means over its
trials, and all figures are means over items. Intervals (95 %) resample items (``core.stats.smoothed``). Trials that a
provider broke off are excluded and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from core.frameworks.automedic.queries import CAUSES, MISUSES, RULES, CareQuestion, trial_rows
from core.measures.base import Columns, Row, counts_in_words
from core.stats.bootstrap import weighted_interval
from core.stats.intervals import NOTHING, Interval
from core.stats.scores import score_interval
from core.stats.smoothed import mean_interval
from core.store.database import Store
from core.store.selection import Selection

BEST_RATING = 5


def read_care(store: Store, question_type: CareQuestion = "mcq", selection: Selection | None = None) -> pd.DataFrame:
    """Return ``core.frameworks.automedic.queries.trial_rows`` of a selection."""
    with store.read() as cursor:
        return trial_rows(cursor, selection, question_type)


def without_blank(trials: pd.DataFrame) -> pd.DataFrame:
    """Return ``read_care``'s table with blank answers excluded, so that their trials are not failures.

    In the original table a blank answer is invalid: it is not correct, and its trial has failed.
    """
    blank = trials["conv"] == "empty"
    return trials.assign(
        counted=trials["counted"] & ~blank,
        static_counted=trials["static_counted"] & (trials["static"] != "empty"),
        role_breaking=trials["role_breaking"] & ~blank,
        abrupt=trials["abrupt"].mask(blank),
        invalid=trials["invalid"].mask(blank),
    )


EarlyEnd = Literal["failed", "allowed"]
"""Whether a clean early end (``clean_early_ends``) is an abrupt end, as the paper's definition is read here."""


def clean_early_ends(trials: pd.DataFrame) -> pd.Series:
    """Return for each trial of ``read_care``'s table whether its doctor ended it early, but properly.

    The doctor sent the end tag alone, after one to three answered queries. A conversation that ends before any query,
    without a tag, or by an end tag next to other words has ended abruptly under either rule.
    """
    return (trials["abrupt"] == "early_end") & (trials["turns"] > 0)


def without_clean_early_ends(trials: pd.DataFrame) -> pd.DataFrame:
    """Return ``read_care``'s table in which a clean early end is no failure."""
    return trials.assign(abrupt=trials["abrupt"].mask(clean_early_ends(trials)))


def item_rows(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each condition and case of ``read_care``'s table, in their order.

    Columns: ``model``, ``dataset``, ``specialty``, ``case_key``, ``trials``, and means over the trials that have the
    figure (NaN if none has):
    ``conv``, ``static``: 1 if the answer is right, else 0, over answers that count;
    ``per_word``: queries / words of their messages (inside and outside of tags), over counted trials;
    ``efficiency``: ``per_word`` if the answer is right, else 0;
    ``empathy``: rating / 5; ``failed``: 1 if a counted trial has any failure, else 0;
    ``turns``: queries of a whole conversation; ``words_per_turn``: words / queries, of conversations with a query.
    """
    counted, whole = trials["counted"], trials["whole"]
    right = (trials["conv"] == "correct").astype(float)
    per_word = (trials["turns"] / trials["words"].where(trials["words"] > 0)).fillna(0.0)
    figures = pd.DataFrame(
        {
            "conv": right.where(counted),
            "static": (trials["static"] == "correct").astype(float).where(trials["static_counted"]),
            "per_word": per_word.where(counted),
            "efficiency": (right * per_word).where(counted),
            "empathy": trials["rating"].astype(float) / BEST_RATING,
            "failed": _failed(trials).astype(float).where(counted),
            "turns": trials["turns"].astype(float).where(whole),
            "words_per_turn": (trials["words"] / trials["turns"].where(trials["turns"] > 0)).where(whole),
        }
    )
    names = ["model", "case_key"]
    groups = pd.concat([trials[names], figures], axis=1).groupby(names, observed=True, sort=True)
    described = trials.groupby(names, observed=True, sort=True)[["dataset", "specialty"]].first()
    return described.assign(trials=groups.size()).join(groups.mean()).reset_index()


Floats = NDArray[np.float64]
CareDimension = Literal["accuracy", "efficiency", "empathy", "robustness"]
PARTS: tuple[CareDimension, ...] = get_args(CareDimension)
PAIRED = ("acc_conv", "acc_static")
"""Accuracy after the conversation and on the whole question, on the items in which both answers count."""
UNPAIRED = ("acc_conv_all", "acc_static_all")
"""The same accuracies, each on all items that have this answer."""
PER_CENT = 100
VALUE = Columns("value", n="n_items")
_SHARE = Columns("share", None, None, n="counted")
_BARE = Columns("value", None, None, n="items")
_USED = [
    "model", "case_key", "dataset", "specialty", "question_type", "whole", "counted", "conv", "static",
    "static_counted", "turns", "words", "rating", "not_judged", "role_breaking", "abrupt", "invalid", "end_reason",
    "to_staff", "repeated", *(f"misused_{kind}" for kind in MISUSES),
]  # fmt: skip
"""The columns of the trials that figures need; grouping is faster with fewer columns."""
CORNERS = np.array([(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)])
"""Pseudo-items: all pairs of right or wrong answers after the conversation and to the whole question."""


def parts(trials: pd.DataFrame, *, by_dataset: bool = False) -> list[Row]:
    """Return eight rows for each condition of ``read_care``'s table: the parts, ``PAIRED`` and ``UNPAIRED``.

    ``by_dataset``: separately for each data set. A row without an item has no estimate; without variation it has no
    bounds. ``more`` counts the trials whose conversation does not count (``excluded``) and those whose answer to the
    whole question does not (``excluded_static``), by verdict.

    ``accuracy`` is S_A = Acc_conv × ``penalty`` of ``PAIRED``. The formula in the paper is not known to us; this one is
    our choice from its description, so both accuracies are reported too. ``efficiency`` is S_C: 100 × the mean of 1 /
    (mean words per query, including words outside of tags) if the answer is right, else 0; a conversation without a
    query has 0. ``empathy`` is S_E, the mean rating / 5. ``robustness`` is S_R = 1 − the share of items that failed in
    any way.
    """
    return [
        row for label, members, items in care_groups(trials, by_dataset) for row in _profile_rows(label, members, items)
    ]


def summaries(trials: pd.DataFrame, *, by_dataset: bool = False) -> list[Row]:
    """Return a row for each condition: its part accuracy, with the other figures of ``parts`` and counts in ``more``.

    ``failed`` of the ``counted`` conversations failed in any way; each kind of failure has a column too. ``unrated``
    whole conversations have no rating.
    """
    rows = []
    for label, members, items in care_groups(trials, by_dataset):
        figures = {row.label["measure"]: row for row in _profile_rows(label, members, items)}
        conv, static = (figures[name].estimate for name in PAIRED)
        failures = _failures(label, members)
        accuracy = figures["accuracy"]
        more: dict[str, Any] = {
            **{name: figures[name].estimate for name in (*PARTS[1:], *PAIRED)},
            "penalty": None if conv is None or static is None else float(penalty(np.array(conv), np.array(static))),
            "n_items": len(items),
            "trials": len(members),
            "counted": int(members["counted"].sum()),
            "unrated": int((members["whole"] & members["rating"].isna()).sum()),
            "failed": int((members["counted"] & _failed(members)).sum()),
            **{kind: sum(row.more["trials"] for row in failures if row.label["kind"] == kind) for kind in CAUSES},
        }
        bounds = accuracy.low, accuracy.high
        columns = Columns("accuracy", n="n_pairs", excluded="excluded")
        excluded = by_verdict(members.loc[~members["counted"], "conv"])
        rows.append(Row(label, accuracy.estimate, *bounds, accuracy.n, excluded, more, unit="items", columns=columns))
    return rows


def failure_shares(trials: pd.DataFrame, *, by_dataset: bool = False) -> list[Row]:
    """Return a row for each condition, kind and cause of failure: its share (0 to 1) of the conversations that count.

    ``more`` has the number of ``trials``. A trial can have one failure of each kind.
    """
    return [row for label, members, _ in care_groups(trials, by_dataset) for row in _failures(label, members)]


def habits(trials: pd.DataFrame, *, by_dataset: bool = False) -> list[Row]:
    """Return a row for each condition on its habits in whole conversations.

    The estimate is the mean number of turns (answered queries) of an item. In ``more``: ``words_per_turn``, a mean over
    items; ``to_staff``, the share of all queries that went to the clinical staff; ``repeated``, the share that repeats
    a query of the same conversation; ``None`` without queries. ``misuses`` counts messages, ``endings`` conversations,
    ``ratings`` each rating from 1 to 5, ``not_judged`` conversations whose patient is a rule.
    """
    rows = []
    for label, members, items in care_groups(trials, by_dataset):
        whole = members[members["whole"]]
        sums = {name: int(whole[name].sum()) for name in ("turns", "to_staff", "repeated")}
        ratings = Counter(int(rating) for rating in whole["rating"].dropna())
        more = {
            "conversations": len(whole),
            "queries": sums["turns"],
            "words_per_turn": _none_if_nan(items["words_per_turn"].mean()),
            **{name: sums[name] / sums["turns"] if sums["turns"] else None for name in ("to_staff", "repeated")},
            "misuses": {kind: int(whole[f"misused_{kind}"].sum()) for kind in MISUSES},
            "endings": dict(Counter(whole["end_reason"].astype(str)).most_common()),
            "ratings": {rating: ratings[rating] for rating in range(1, BEST_RATING + 1)},
            "not_judged": int(whole["not_judged"].sum()),
        }
        n = int(items["turns"].notna().sum())
        columns = Columns("turns", None, None, n="items")
        rows.append(Row(label, _none_if_nan(items["turns"].mean()), n=n, more=more, unit="items", columns=columns))
    return rows


UNREAD, NOT_JUDGED = "not read", "not judged"
Counted = Literal["endings", "misuses", "ratings"]
_COUNTED: dict[Counted, tuple[str, str, str]] = {
    "endings": ("ending", "conversations", "conversations"),
    "misuses": ("misuse", "queries", "queries"),
    "ratings": ("rating", "conversations", "conversations"),
}
"""Counts of ``habits`` → the name of their values, the column of their total, and the unit of the total."""


def shares_of(rows: Iterable[Row], counted: Counted) -> Iterator[Row]:
    """Yield a row for each condition of ``habits`` and counted value, such as each ending: its share (0 to 1).

    The last of the ratings is ``UNREAD``: conversations whose rating could not be read, or is void. Before it comes
    ``NOT_JUDGED`` if a rule plays the patient of a conversation.
    """
    name, total_column, unit = _COUNTED[counted]
    for row in rows:
        total = row.more[total_column]
        counts = dict(row.more[counted])
        if counted == "ratings":
            if row.more["not_judged"]:
                counts[NOT_JUDGED] = row.more["not_judged"]
            counts[UNREAD] = total - sum(counts.values())
        for value, count in counts.items():
            label = {**row.label, name: str(value)}
            share = count / total if total else None
            columns = Columns("share", None, None, n=total_column)
            yield Row(label, share, n=total, more={"count": count}, unit=unit, columns=columns)


QUERY_MEASURES = ("turns", "words_per_turn", "to_staff", "repeated")


def query_rows(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the four figures of ``habits`` about queries, each in a separate row."""
    for row, measure in product(rows, QUERY_MEASURES):
        yield Row({**row.label, "measure": measure}, row[measure], n=row.n, unit="items", columns=_BARE)


def care_groups(trials: pd.DataFrame, by_dataset: bool) -> Iterator[tuple[dict[str, str], pd.DataFrame, pd.DataFrame]]:
    """Yield label, trials and items of each condition, or of each condition and data set."""
    used = trials[_USED]
    groups = used.groupby("dataset", observed=True, sort=True) if by_dataset else [("all", used)]
    for dataset, members in groups:
        items = dict(list(item_rows(members).groupby("model", observed=True, sort=True)))
        for model, of_model in members.groupby("model", observed=True, sort=True):
            yield {"model": str(model), "dataset": str(dataset)}, of_model, items[model]


def _profile_rows(label: Mapping[str, str], trials: pd.DataFrame, items: pd.DataFrame) -> Iterator[Row]:
    values = {name: items[name].to_numpy(np.float64) for name in ("conv", "static", "efficiency", "empathy", "failed")}
    conv, static = values["conv"], values["static"]
    both = ~np.isnan(conv) & ~np.isnan(static)
    accuracy = None
    if both.any():
        accuracy = float(penalised(conv[both].mean(keepdims=True), static[both].mean(keepdims=True))[0])
    efficiency = values["efficiency"][~np.isnan(values["efficiency"])] * PER_CENT
    # the maximum of an item is the value of the shortest queries, as if the answer were right; for a doctor that asks
    # nothing the maximum is 0, and so the 0 has no interval
    maximum = float(items.loc[items["efficiency"].notna(), "per_word"].max()) * PER_CENT
    measures = {
        "accuracy": (accuracy, penalised_interval(conv[both], static[both]), int(both.sum())),
        "efficiency": _mean(efficiency, score_interval, high=maximum),
        "empathy": _mean(values["empathy"], score_interval),
        "robustness": _mean(1 - values["failed"]),
        "acc_conv": _mean(conv[both]),
        "acc_static": _mean(static[both]),
        "acc_conv_all": _mean(conv),
        "acc_static_all": _mean(static),
    }
    excluded, excluded_static = (
        counts_in_words(by_verdict(trials.loc[~trials[counted], answer]))
        for counted, answer in (("counted", "conv"), ("static_counted", "static"))
    )
    for measure, (estimate, bounds, n) in measures.items():
        more = {
            "rule": RULES[str(trials["question_type"].iat[0])],  # type: ignore[index]
            "n_without": len(items) - n,
            "trials": len(trials),
            "excluded": excluded,
            "excluded_static": excluded_static,
        }
        yield Row({**label, "measure": measure}, estimate, *bounds, n, more=more, unit="items", columns=VALUE)


def _failures(label: Mapping[str, str], trials: pd.DataFrame) -> list[Row]:
    counted = trials[trials["counted"]]
    # the causes of abrupt ends and of invalid answers have different names, so their counts can be merged
    counts = Counter(counted["abrupt"].dropna()) + Counter(counted["invalid"].dropna())
    counts["speaks_for_others"] = int(counted["role_breaking"].sum())
    n = len(counted)
    return [
        Row(
            {**label, "kind": kind, "cause": cause},
            counts[cause] / n if n else None,
            n=n,
            more={"trials": counts[cause]},
            unit="conversations",
            columns=_SHARE,
        )
        for kind, causes in CAUSES.items()
        for cause in causes
    ]


def _failed(trials: pd.DataFrame) -> pd.Series:
    return trials["role_breaking"] | trials["abrupt"].notna() | trials["invalid"].notna()


def penalised(conv: Floats, static: Floats) -> Floats:
    """Return S_A of accuracies: conversational accuracy × min(1, conversational / static), the first if both are 0."""
    return conv * penalty(conv, static)


def penalty(conv: Floats, static: Floats) -> Floats:
    return np.divide(conv, static, out=np.ones_like(conv), where=conv < static)


def penalised_interval(conv: Floats, static: Floats) -> Interval:
    """Return the interval of S_A: the values of an item share a weight; both means and their ratio are resampled.

    Each accuracy would have the interval of ``core.stats.smoothed``. Items with equal pairs of values share one column
    of weights.
    """
    if not conv.size:
        return NOTHING
    distinct, counts = np.unique(np.column_stack([conv, static]), axis=0, return_counts=True)
    values = np.vstack([distinct, CORNERS])

    def accuracy(weights: Floats) -> Floats:
        means = weights @ values / weights.sum(axis=1, keepdims=True)
        return penalised(means[:, 0], means[:, 1])

    low, high = weighted_interval(accuracy, counts, len(CORNERS))
    return Interval(low if conv.any() else 0.0, high if conv.min() < 1 else 1.0)


def by_verdict(verdicts: pd.Series) -> dict[str, int]:
    return dict(sorted(Counter(str(verdict) for verdict in verdicts.dropna()).items()))


def _mean(
    values: Floats, interval: Callable[..., Interval] = mean_interval, *, high: float = 1.0
) -> tuple[float | None, Interval, int]:
    """Return the mean of the values that are not NaN, its interval between 0 and ``high``, and their number."""
    present = values[~np.isnan(values)]
    if not present.size:
        return None, NOTHING, 0
    return float(present.mean()), interval(present, high=high), present.size


def _none_if_nan(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
