"""The paper's studies by experts: printed figures next to those of a review, by hand."""

from __future__ import annotations

import pytest

from core.datasets.select import cases_of
from core.frameworks.automedic.measures.profile import parts
from core.frameworks.automedic.measures.studies import Study, report
from core.measures.base import MetricRequest, Row
from core.reviews.reviewing import plan_review, unblind
from core.reviews.state import state_of
from core.store.database import Store
from core.store.queries.profiles import add_profiles
from core.store.review_records import parse_item, planned
from core.text.profiles import Generated, own_profile
from tests.core.frameworks.automedic.measures.consultations import SIX, automedic, trials_of
from tests.support.answering import record_all

EXPERTS = ("Ada", "Ben", "Cyd")
MAKER = "openai/maker"


def rows(store: Store, part: Study, review: str | None = None) -> list[Row]:
    return list(report.rows(MetricRequest(store), part=part, review=review))


def reviewed(store: Store, kind: str, answers: dict[str, list[tuple[str, ...]]], **fields: object) -> None:
    """Plan and unblind a review; ``answers`` are question → for each item, in its order, the experts' answers."""
    number = len(next(iter(answers.values())))
    plan_review(store, kind, planned(kind=kind, number=number, annotators=EXPERTS, shared=1.0, seed=1, **fields))
    items = state_of(store, kind).items
    said = [
        (item.number, expert, question, value)
        for question, by_item in answers.items()
        for item, values in zip(items, by_item, strict=True)
        for expert, value in zip(EXPERTS, values, strict=True)
    ]
    record_all(store, kind, said)
    unblind(store, kind, "Ada")


def of_review(listed: list[Row], about: str, figure: str) -> Row:
    (row,) = (r for r in listed if not r.source and (r.label["about"], r.label["figure"]) == (about, figure))
    return row


def test_without_a_review_all_printed_figures_are_there(store: Store) -> None:
    request = MetricRequest(store)
    printed = list(report.rows(request, part="filter"))
    assert [(row.estimate, row.n, row.source) for row in printed] == [(0.763, 24, "table 2"), (0.8197, 22, "table 2")]
    assert printed[1].excluded == {"tied": 2}
    assert [row.estimate for row in rows(store, "profiles")] == [0.9140, 0.8313, 3.464]
    agreement = {(row.label["about"], row.label["figure"]): row.estimate for row in rows(store, "agreement")}
    assert len(agreement) == 8
    assert agreement["robustness", "Gwet's AC2"] == 0.6209
    scores = {(row.label["about"], row.label["model"]): row for row in rows(store, "scores")}
    assert len(scores) == 8
    assert scores["empathy", "LLaMA-3 70B"].estimate == 2.3667
    assert scores["empathy", "LLaMA-3 70B"].more["care"] == 0.7260
    assert "suitability" in request.notes[0].text


def test_experts_and_the_filter_on_suitability(store: Store) -> None:
    """Experts: three accept; two of three accept; one accepts, two reject for two reasons; all reject; no majority.

    With two verdicts, the third and the fifth item have a majority too.
    """
    rejected = "general_knowledge"
    answers = [
        ("accept", "accept", "accept"),
        ("accept", "accept", rejected),
        ("accept", rejected, "image_dependent"),
        (rejected, rejected, rejected),
        ("research_setting", rejected, "image_dependent"),
    ]
    reviewed(store, "suitability", {"suitable": answers}, case_set="library")
    cases = {case.case_key: case for case in cases_of("library")}
    drawn = [cases[parse_item(item.item).case_key] for item in state_of(store, "suitability").items]
    # the filter accepts the first three and rejects the fourth; it has not seen the fifth
    verdicts = [(drawn[n], own_profile(drawn[n])) for n in range(3)]
    generated = [
        (case, verdict.model_copy(update={"made_by": MAKER})) for case, verdict in verdicts if verdict is not None
    ]
    generated.append((drawn[3], Generated(suitable=False, reason="general_knowledge", made_by=MAKER)))
    by_hand = [(drawn[4], Generated(suitable=False, reason="general_knowledge", made_by="Ada"))]
    with store.write() as connection:
        assert add_profiles(connection, [*generated, *by_hand]) == 5
    listed = rows(store, "filter")
    # pairs of experts with the same verdict: 3, 1, 1, 3, 3 of 3
    experts = of_review(listed, "experts", "percent agreement")
    assert (experts.estimate, experts.n) == (pytest.approx(11 / 15), 5)
    accepting, rejecting = 6 / 15, 9 / 15
    by_chance = accepting**2 + rejecting**2
    fleiss = of_review(listed, "experts", "Fleiss' kappa")
    assert fleiss.estimate == pytest.approx((11 / 15 - by_chance) / (1 - by_chance))
    # with reasons 3, 1, 0, 3, 0 of 3
    assert of_review(listed, "experts, with reasons", "percent agreement").estimate == pytest.approx(7 / 15)
    # majorities: accept, accept, reject, reject; filter: accept, accept, accept, reject
    cohen = of_review(listed, "filter and majority", "Cohen's kappa")
    assert (cohen.label["filter"], cohen.n, cohen.excluded) == (MAKER, 4, {"no verdict of the filter": 1})
    assert cohen.estimate == pytest.approx((3 / 4 - 1 / 2) / (1 - 1 / 2))
    assert cohen.low is not None
    assert {row.label["by"] for row in listed if not row.source} == {"suitability"}


def test_quality_of_profiles_as_a_whole_and_by_part(store: Store) -> None:
    cases = [case for case in cases_of("library") if case.profile is not None][:2]
    with store.write() as connection:
        add_profiles(connection, [(case, profile) for case in cases if (profile := own_profile(case))])
    same, apart = ("4", "4", "4"), ("4", "3", "3")
    reviewed(
        store,
        "profile_quality",
        {"demographics": [same, same], "basic": [same, apart], "optional": [apart, same]},
        case_set="library",
    )
    listed = rows(store, "profiles")
    # of three pairs in an item apart one agrees, two are a point apart on four points: 1 − 1/6
    expected = (4 + 2 * (1 + 2 * 5 / 6) / 3) / 6
    together = of_review(listed, "all parts", "percent agreement")
    assert (together.estimate, together.n) == (pytest.approx(expected), 6)
    mean = of_review(listed, "all parts", "mean rating")
    assert mean.estimate == pytest.approx((4 * 4 + 2 * 10 / 3) / 6)
    assert of_review(listed, "demographics", "percent agreement").estimate == 1
    places = [(row.label["about"], row.label["figure"], bool(row.source)) for row in listed]
    # each printed figure is followed by that of the review
    assert places[:2] == [("all parts", "percent agreement", True), ("all parts", "percent agreement", False)]


def test_mean_ratings_of_a_doctor_next_to_its_computed_parts(store: Store) -> None:
    trials = trials_of(store, automedic(), *SIX)
    # the sixth consultation has no message of a patient
    ratings = [("3", "3", "3"), ("1", "1", "1"), ("2", "2", "2"), ("3", "2", "1"), ("3", "3", "3")]
    questions = ("accuracy", "conversational_efficiency_strategy", "empathy", "robustness")
    reviewed(store, "care_ratings", dict.fromkeys(questions, ratings))
    rated = trials[trials["case_key"] != "ours/6"]
    computed = {row.label["measure"]: row.estimate for row in parts(rated)}
    listed = rows(store, "scores")
    for about, part in zip(questions, ("accuracy", "efficiency", "empathy", "robustness"), strict=True):
        row = of_review(listed, about, "mean rating")
        assert (row.estimate, row.n) == (pytest.approx(11 / 5), 5)
        assert row.more["care"] == pytest.approx(computed[part])
    agreement = of_review(rows(store, "agreement"), "empathy", "percent agreement")
    # of 3, 2, 1 two pairs are a point apart on three points (1 − 1/3), one is two points apart (0)
    assert agreement.estimate == pytest.approx((4 + 2 * (2 / 3) / 3) / 5)
