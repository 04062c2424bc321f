"""How far judges of rubrics can be trusted: their quotations, their consistency, and the agreement of two of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations

import numpy as np
import pandas as pd

from core.frameworks.starts import RUBRICS
from core.judging.form import CANNOT_JUDGE
from core.measures.base import Columns, MetricRequest, Row, Section, metric
from core.measures.rubrics.reading import EMPTY, FILTERS, RubricOption, decided, read_rubric_outcomes
from core.measures.rubrics.report import by_case
from core.measures.rubrics.scores import (
    CANNOT_BE_JUDGED,
    OTHER_SPEAKER,
    UNREADABLE,
    VOIDED,
    judges_in,
    of_judges,
    why_voided,
)
from core.stats.agreement import agreement_by_case
from core.stats.ratios import ratio
from core.stats.smoothed import ratio_interval
from core.store.queries.rubrics import quotations_from_json

_TWO = ("met", "not met")


@metric("rubric_judges", *FILTERS, empty=EMPTY, starts=(RUBRICS,), compared=False, page="judges")
def report_judges(request: MetricRequest, rubric: RubricOption = None) -> Iterator[Row]:
    """Report how far each judge of rubrics can be trusted: its quotations, its consistency, other judges' agreement.

    An invented quotation voids a verdict. Repeats are judgements of the same criterion in the same conversation.
    Agreement is on met or not met; a judge that gets several criteria at once is another judge.
    """
    reading = request.read(read_rubric_outcomes, request.selection, rubric, None)
    if reading.rubric is None:
        return
    cases = {conversation.trial_id: conversation.case_key for conversation in reading.conversations}
    verdicts = reading.verdicts[reading.verdicts["trial_id"].isin(cases)]
    verdicts = verdicts.assign(case_key=verdicts["trial_id"].map(cases))
    judges = judges_in(verdicts)
    for name, judge in judges.items():
        yield from _trust_rows(name, verdicts[of_judges(verdicts, [judge])])
    for (first, a), (second, b) in combinations(judges.items(), 2):
        yield from _agreement_row(first, second, verdicts[of_judges(verdicts, [a])], verdicts[of_judges(verdicts, [b])])


def _trust_rows(name: str, verdicts: pd.DataFrame) -> Iterator[Row]:
    listed = zip(verdicts["case_key"], verdicts["quotations"], strict=True)
    states = [(str(case), quotation.state) for case, text in listed for quotation in quotations_from_json(text)]
    for state in ("verified", "repaired", "unverified"):
        yield _share_row(name, f"quotations {state}", ((case, s == state, 1) for case, s in states), "quotations")
    why = verdicts["quotations"].map(lambda text: why_voided(quotations_from_json(text))).where(verdicts["voided"], "")
    for figure, bad in (
        (VOIDED, why == VOIDED),
        (OTHER_SPEAKER, why == OTHER_SPEAKER),
        (CANNOT_BE_JUDGED, verdicts["verdict"] == CANNOT_JUDGE),
        (UNREADABLE, verdicts["verdict"].isna()),
    ):
        items = zip(verdicts["case_key"], bad.astype(float), np.ones(len(verdicts)), strict=True)
        yield _share_row(name, figure, items, "verdicts")
    pairs = []
    for _, repeats in decided(verdicts).groupby(["trial_id", "criterion_hash"]):
        equal = [a == b for a, b in combinations(repeats["verdict"], 2)]
        if equal:
            pairs.append((repeats["case_key"].iloc[0], sum(equal) / len(equal), 1.0))
    if pairs:
        yield _share_row(name, "repeats agree", pairs, "criteria")


def _share_row(name: str, figure: str, items: Iterable[tuple[str, float, float]], unit: str) -> Row:
    above, below = by_case(items)
    share = ratio(above, below) if below.any() else None
    more = {"n_items": int(below.sum()), "of": unit, "cohen_kappa": None, "gwet_ac": None}
    return Row(
        {"judge": name, "figure": figure}, share, *ratio_interval(above, below), int((below > 0).sum()), {}, more,
        columns=Columns("share"),
    )  # fmt: skip


def _agreement_row(first: str, second: str, of_first: pd.DataFrame, of_second: pd.DataFrame) -> Iterator[Row]:
    """Yield the agreement of two judges on the criteria that both called met or not met, if there are any."""
    keys = ["trial_id", "criterion_hash"]
    sides = [decided(side[(side["repeat"] == 1) & side["verdict"].isin(_TWO)]) for side in (of_first, of_second)]
    seconds = sides[1].set_index(keys)["verdict"].rename("second")
    both = sides[0].set_index(keys)[["verdict", "case_key"]].join(seconds, how="inner")
    if both.empty:
        return
    cases = {case: number for number, case in enumerate(dict.fromkeys(both["case_key"]))}
    table = np.zeros((len(cases), 2, 2))
    for row in both.itertuples():
        table[cases[row.case_key], _TWO.index(row.verdict), _TWO.index(row.second)] += 1
    agreement = agreement_by_case([table])[0]
    observed = agreement["percent_agreement"]
    more = {
        "n_items": len(both),
        "of": "criteria",
        "cohen_kappa": agreement["cohen_kappa"].value,
        "gwet_ac": agreement["gwet_ac"].value,
    }
    label = {"judge": first, "figure": f"agrees with {second}"}
    yield Row(label, observed.value, *observed.interval, len(cases), {}, more, columns=Columns("share"))


JUDGES = Section(
    "Judges of rubrics",
    report_judges,
    kind="table",
    heads={"cohen_kappa": "Cohen’s kappa", "gwet_ac": "Gwet’s AC"},
    page="judges",
)
SECTIONS = (JUDGES,)
