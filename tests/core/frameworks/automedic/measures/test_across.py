"""CARE across data sets and seats: the scale within a data set, the line through the points, who may be pooled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from core.case import Profile
from core.frameworks.automedic.measures.across import Point, dataset_suitability, fit, fits, normalised, scatter
from core.frameworks.automedic.measures.profile import CareProfile, Estimate
from core.models.registry import load_registry
from core.store.queries.runs import Run
from core.text.profiles import Generated
from tests.core.store.builders import a_case, conditions_of

NONE = Estimate()


def a_profile(seat: str, dataset: str, **parts: float | None) -> CareProfile:
    held = {name: NONE if value is None else Estimate(value, value, value, 9) for name, value in parts.items()}
    empty = dict.fromkeys(
        ("accuracy", "efficiency", "empathy", "robustness", "acc_conv", "acc_static", "conv_all", "static_all"), NONE
    )
    figures: dict[str, Any] = {**empty, **held}
    counts = dict.fromkeys(("items", "trials"), 9) | dict.fromkeys(("unrated", "failed"), 0)
    return CareProfile(seat=seat, doctor=seat, group=dataset, penalty=None, **figures, **counts)


def test_each_part_is_scaled_within_a_data_set_then_averaged() -> None:
    """In alpha 0.2, 0.5, 0.8 become 0, 0.5, 1; in beta 0.9 and 0.4 become 1 and 0."""
    given = [
        *(a_profile(seat, "alpha", accuracy=value) for seat, value in (("a", 0.2), ("b", 0.5), ("c", 0.8))),
        *(a_profile(seat, "beta", accuracy=value) for seat, value in (("a", 0.9), ("b", 0.4))),
    ]
    found = {one.seat: one for one in normalised(given, {}) if one.part == "accuracy"}
    assert {seat: one.value for seat, one in found.items()} == pytest.approx({"a": 0.5, "b": 0.25, "c": 1.0})
    assert found["c"].by_dataset == {"alpha": 1.0, "beta": None}
    assert (found["a"].n_datasets, found["c"].n_datasets) == (2, 1)


def test_no_scale_where_fewer_than_two_seats_differ() -> None:
    alone = normalised([a_profile("a", "alpha", accuracy=0.2)], {})
    assert [one.value for one in alone] == [None] * 4
    # 0.1 + 0.2 is not 0.3 to the last digit: rounding is no difference
    given = [
        a_profile("a", "x", empathy=0.1 + 0.2),
        a_profile("b", "x", empathy=0.3),
        a_profile("c", "x", empathy=None),
    ]
    assert {one.value for one in normalised(given, {}) if one.part == "empathy"} == {None}


def points(*pairs: tuple[float, float], group: str = "g") -> list[Point]:
    return [Point(f"m{i}", f"m{i}", group, "d", static, conv, 9) for i, (static, conv) in enumerate(pairs)]


def test_the_line_through_points_that_lie_on_one() -> None:
    found = fit(points((0.2, 0.15), (0.4, 0.25), (0.6, 0.35), (0.9, 0.5)))
    assert (found.slope, found.intercept, found.r, found.n) == (*map(pytest.approx, (0.5, 0.05, 1.0)), 4)


def test_pearsons_r_and_its_interval_by_hand() -> None:
    """Fisher: tanh(atanh r ± 1.959964 / √(n − 3)), r by its definition."""
    pairs = [(0.3, 0.2), (0.5, 0.5), (0.6, 0.4), (0.7, 0.65), (0.9, 0.6), (0.4, 0.45)]
    x, y = np.array(pairs).T
    dx, dy = x - x.mean(), y - y.mean()
    r = (dx * dy).sum() / np.sqrt((dx**2).sum() * (dy**2).sum())
    half = 1.959963985 / np.sqrt(6 - 3)
    found = fit(points(*pairs))
    assert (found.r, found.low, found.high) == pytest.approx(
        (r, np.tanh(np.arctanh(r) - half), np.tanh(np.arctanh(r) + half))
    )
    assert found.slope == pytest.approx((dx * dy).sum() / (dx**2).sum())


def test_too_few_points_or_none_that_differ_have_no_line() -> None:
    assert fit([]).n == 0
    assert fit(points((0.5, 0.5))).slope is None
    assert (fit(points((0.5, 0.1), (0.5, 0.9))).slope, fit(points((0.5, 0.1), (0.5, 0.9))).r) == (None, None)
    flat = fit(points((0.1, 0.5), (0.9, 0.5)))
    assert (flat.slope, flat.intercept, flat.r) == (0.0, 0.5, None)
    three = fit(points((0.1, 0.2), (0.5, 0.4), (0.9, 0.9)))
    assert three.r is not None
    assert (three.low, three.high) == (None, None)


def test_each_group_of_models_has_its_own_line() -> None:
    given = [*points((0.1, 0.1), (0.9, 0.9)), *points((0.1, 0.9), (0.9, 0.1), group="other")]
    assert {name: found.slope for name, found in fits(given).items()} == pytest.approx({"g": 1.0, "other": -1.0})


def test_a_point_needs_both_accuracies_and_knows_its_group() -> None:
    whole = a_profile("openai/gpt-4o", "d", acc_conv=0.4, acc_static=0.6)
    half = a_profile("reference/bayes", "d", acc_conv=0.4)
    (found,) = scatter([whole, half], load_registry().group)
    assert (found.static, found.conv, found.n, found.group) == (0.6, 0.4, 9, "proprietary")


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("openai/gpt-oss-120b", "open weights"),
        ("openai/my-own", "openai"),
        ("gpt_4", "proprietary"),
        ("hf/Qwen/Qwen2-7B-Instruct", "open weights"),
        ("hf/m42-health/Llama3-Med42-70B", "open weights, medical"),
        ("azure/a-deployment", "azure"),
        ("reference/bayes", "reference"),
        ("gone/away", "gone"),
    ],
)
def test_groups_of_models(name: str, group: str) -> None:
    assert load_registry().group(name) == group


def a_run(run_id: str, **changes: Any) -> Run:
    settings = {"staff": "reference/staff", "max_turns": 20}
    given = Run(
        run_id=run_id,
        protocol="automedic",
        doctor="openai/a",
        patient="openai/p",
        grader="g",
        summariser="s",
        prompt_pack="/packs/automedic",
        prompt_hash="abcdef999",
        case_set="library",
        case_set_hash="c",
        trials=1,
        seed=20,
        settings=settings,
        code_version="1",
        source="local",
        created_at=1.0,
        cases=1,
    )
    return replace(given, **changes)


def keys(*runs: Run) -> dict[str, tuple[str, ...]]:
    return {one.name: one.runs for one in conditions_of(runs)}


def test_runs_with_the_same_patient_staff_prompts_and_cap_are_pooled() -> None:
    assert keys(a_run("2", seed=3), a_run("1")) == {"openai/a": ("1", "2")}


def test_conditions_are_told_apart_by_what_differs_and_by_nothing_else() -> None:
    capped = a_run("4", settings={"staff": "reference/staff", "max_turns": 10})
    assert keys(a_run("1"), a_run("2", patient="openai/q"), a_run("3", doctor="openai/b", prompt_hash="fff")) == {
        "openai/a · patient openai/p": ("1",),
        "openai/a · patient openai/q": ("2",),
        "openai/b": ("3",),
    }
    assert set(keys(a_run("1"), capped, a_run("5", prompt_hash="123456789"))) == {
        "openai/a · prompts automedic abcdef · cap 20",
        "openai/a · prompts automedic abcdef · cap 10",
        "openai/a · prompts automedic 123456 · cap 20",
    }


def test_suitability_takes_a_stored_profile_then_the_cases_own_then_the_rules() -> None:
    bare = [a_case(n, profile=None) for n in (1, 2, 3)]
    own = a_case(4)
    rejected = Generated(suitable=False, reason="image_dependent", made_by="openai/m")
    anew = Generated(suitable=True, profile=Profile(), made_by="openai/m")
    stored = {(bare[0].case_key, bare[0].content_hash): rejected, (own.case_key, own.content_hash): anew}
    found = dataset_suitability("ours", [*bare, own], stored)
    assert (found.cases, found.unjudged, found.coverage.n, found.coverage.suitable) == (4, 2, 2, 1)
    assert found.coverage.reasons == {"image_dependent": 1}
    assert found.made_by == {"openai/m": 2}

    rule = Generated(suitable=False, reason="general_knowledge", made_by="rules")
    judged = dataset_suitability("ours", [*bare, a_case(5)], stored, lambda case: rule)
    assert (judged.unjudged, judged.made_by) == (0, {"rules": 2, "openai/m": 1, "case": 1})
    assert judged.coverage.share == 0.25
