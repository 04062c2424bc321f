"""CARE across data sets and conditions: the scale within a data set, the line through the points, pooling."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from core.case import Profile
from core.frameworks.automedic.measures.across import fit, fits, normalised, points
from core.frameworks.automedic.measures.profile import VALUE
from core.frameworks.automedic.measures.suitability import case_profiles, suitable_row
from core.measures.base import Row
from core.models.registry import load_registry
from core.store.queries.runs import Run
from core.text.profiles import Generated
from tests.core.store.builders import a_case, conditions_of


def part_rows(model: str, dataset: str, **parts: float | None) -> list[Row]:
    """Return the rows of ``parts`` for a condition on a data set, each over nine items."""
    measures = ("accuracy", "efficiency", "empathy", "robustness", "acc_conv", "acc_static")
    return [
        Row({"model": model, "dataset": dataset, "measure": name}, parts.get(name), n=9, columns=VALUE)
        for name in measures
    ]


def test_each_part_is_scaled_within_a_data_set_then_averaged() -> None:
    """In alpha, 0.2, 0.5 and 0.8 become 0, 0.5 and 1; in beta, 0.9 and 0.4 become 1 and 0."""
    rows = [
        *(
            row
            for model, value in (("a", 0.2), ("b", 0.5), ("c", 0.8))
            for row in part_rows(model, "alpha", accuracy=value)
        ),
        *(row for model, value in (("a", 0.9), ("b", 0.4)) for row in part_rows(model, "beta", accuracy=value)),
    ]
    scaled = {row.label["model"]: row for row in normalised(rows, {}) if row.label["measure"] == "accuracy"}
    assert {model: row.estimate for model, row in scaled.items()} == pytest.approx({"a": 0.5, "b": 0.25, "c": 1.0})
    assert scaled["c"].more == {"alpha": 1.0, "beta": None}
    assert (scaled["a"].n, scaled["c"].n) == (2, 1)


def test_without_two_different_conditions_there_is_no_scale() -> None:
    scaled = normalised(part_rows("a", "alpha", accuracy=0.2), {})
    assert [row.estimate for row in scaled] == [None] * 4
    # 0.1 + 0.2 is not 0.3 to the last digit: rounding is no difference
    rows = [
        *part_rows("a", "x", empathy=0.1 + 0.2),
        *part_rows("b", "x", empathy=0.3),
        *part_rows("c", "x", empathy=None),
    ]
    assert {row.estimate for row in normalised(rows, {}) if row.label["measure"] == "empathy"} == {None}


def test_conditions_of_one_name_are_joined_unless_they_have_the_same_data_set() -> None:
    """a1 and a2 are conditions of a on alpha and on beta; b1 and b2 are both on alpha."""
    rows = [
        *part_rows("a1", "alpha", accuracy=0.2),
        *part_rows("a2", "beta", accuracy=0.9),
        *part_rows("b1", "alpha", accuracy=0.8),
        *part_rows("b2", "alpha", accuracy=0.5),
        *part_rows("c", "beta", accuracy=0.1),
    ]
    joined = {"a1": "a", "a2": "a", "b1": "b", "b2": "b"}
    scaled = {
        row.label["model"]: row.estimate for row in normalised(rows, joined) if row.label["measure"] == "accuracy"
    }
    assert scaled == pytest.approx({"a": (0 + 1) / 2, "b1": 1.0, "b2": 0.5, "c": 0.0})


def pairs(*values: tuple[float, float], group: str = "g") -> list[Row]:
    return [
        Row({"model": f"m{number}", "group": group, "dataset": "d"}, conv, n=9, more={"static": static})
        for number, (static, conv) in enumerate(values)
    ]


def test_the_line_through_points_on_a_line() -> None:
    line = fit(pairs((0.2, 0.15), (0.4, 0.25), (0.6, 0.35), (0.9, 0.5)))
    assert (line["slope"], line["intercept"], line.estimate, line.n) == (*map(pytest.approx, (0.5, 0.05, 1.0)), 4)


def test_pearsons_r_and_its_interval_by_hand() -> None:
    """The interval is Fisher's: tanh(atanh r ± 1.959964 / √(n − 3))."""
    values = [(0.3, 0.2), (0.5, 0.5), (0.6, 0.4), (0.7, 0.65), (0.9, 0.6), (0.4, 0.45)]
    x, y = np.array(values).T
    dx, dy = x - x.mean(), y - y.mean()
    r = (dx * dy).sum() / np.sqrt((dx**2).sum() * (dy**2).sum())
    half = 1.959963985 / np.sqrt(6 - 3)
    line = fit(pairs(*values))
    assert (line.estimate, line.low, line.high) == pytest.approx(
        (r, np.tanh(np.arctanh(r) - half), np.tanh(np.arctanh(r) + half))
    )
    assert line["slope"] == pytest.approx((dx * dy).sum() / (dx**2).sum())


def test_too_few_or_equal_points_have_no_line() -> None:
    assert fit([]).n == 0
    assert fit(pairs((0.5, 0.5)))["slope"] is None
    upright = fit(pairs((0.5, 0.1), (0.5, 0.9)))
    assert (upright["slope"], upright.estimate) == (None, None)
    two = fit(pairs((0.1, 0.2), (0.9, 0.5)))
    assert (two["slope"], two["intercept"], two.estimate) == (None, None, None), "a line runs through any two points"
    flat = fit(pairs((0.1, 0.5), (0.5, 0.5), (0.9, 0.5)))
    assert (flat["slope"], flat["intercept"], flat.estimate) == (0.0, 0.5, None)
    three = fit(pairs((0.1, 0.2), (0.5, 0.4), (0.9, 0.9)))
    assert three.estimate is not None
    assert (three.low, three.high) == (None, None)


RISING, FALLING = ((0.1, 0.1), (0.5, 0.5), (0.9, 0.9)), ((0.1, 0.9), (0.5, 0.5), (0.9, 0.1))


def test_each_group_of_models_has_its_own_line() -> None:
    rows = [*pairs(*RISING), *pairs(*FALLING, group="other")]
    slopes = {row.label["group"]: row["slope"] for row in fits(rows)}
    assert slopes == pytest.approx({"all": 0.0, "g": 1.0, "other": -1.0})


def test_each_data_set_has_its_own_line() -> None:
    rows = [*pairs(*RISING), *pairs(*FALLING)]
    rows = [replace(row, label={**row.label, "dataset": "ab"[number // 3]}) for number, row in enumerate(rows)]
    slopes = {row.label["dataset"]: row["slope"] for row in fits(rows, "dataset")}
    assert slopes == pytest.approx({"all": 0.0, "a": 1.0, "b": -1.0})


def test_a_point_needs_both_accuracies_and_knows_its_group() -> None:
    rows = [
        *part_rows("openai/gpt-4o", "d", acc_conv=0.4, acc_static=0.6),
        *part_rows("reference/bayes", "d", acc_static=0.4),
    ]
    (point,) = points(rows, load_registry().group)
    assert (point["static"], point.estimate, point.n, point.label["group"]) == (0.6, 0.4, 9, "proprietary")


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
        ("unknown/model", "unknown"),
    ],
)
def test_groups_of_models(name: str, group: str) -> None:
    assert load_registry().group(name) == group


def a_run(run_id: str, **changes: Any) -> Run:
    settings = {"staff": "reference/staff", "max_turns": 20}
    run = Run(
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
    return replace(run, **changes)


def keys(*runs: Run) -> dict[str, tuple[str, ...]]:
    return {condition.name: condition.runs for condition in conditions_of(runs)}


def test_runs_with_the_same_patient_staff_prompts_and_cap_are_pooled() -> None:
    assert keys(a_run("2", seed=3), a_run("1")) == {"openai/a": ("1", "2")}


def test_conditions_are_named_by_their_differences_only() -> None:
    capped = a_run("4", settings={"staff": "reference/staff", "max_turns": 10})
    assert keys(a_run("1"), a_run("2", patient="openai/q"), a_run("3", doctor="openai/b", prompt_hash="fff")) == {
        "openai/a · patient openai/p": ("1",),
        "openai/a · patient openai/q": ("2",),
        "openai/b": ("3",),
    }
    assert set(keys(a_run("1"), capped, a_run("5", prompt_hash="123456789"))) == {
        "openai/a · prompts automedic abcdef · at most 20 turns",
        "openai/a · prompts automedic abcdef · at most 10 turns",
        "openai/a · prompts automedic 123456 · at most 20 turns",
    }


def test_suitability_is_by_the_stored_profile_then_by_the_profile_of_the_case() -> None:
    bare = [a_case(n, profile=None) for n in (1, 2, 3)]
    with_profile = a_case(4)
    rejected = Generated(suitable=False, reason="image_dependent", made_by="openai/m")
    accepted = Generated(suitable=True, profile=Profile(), made_by="openai/m")
    stored = {
        (bare[0].case_key, bare[0].content_hash): rejected,
        (with_profile.case_key, with_profile.content_hash): accepted,
    }
    row = suitable_row("ours", 4, case_profiles([*bare, with_profile], stored))
    assert (row["cases"], row["unjudged"], row["judged"], row["suitable"]) == (4, 2, 2, 1)
    assert (row["reasons"], row["made_by"]) == ("image_dependent=1", "openai/m=2")

    judged = suitable_row("ours", 4, case_profiles([*bare, a_case(5)], stored))
    assert (judged["unjudged"], judged["made_by"]) == (2, "openai/m=1 case=1")
    assert judged.estimate == 0.5
