"""The precision of the linter's rules on criteria that were read by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import yaml

from core.judging.rubric import rubric_of
from core.measures.rubrics.lint import Fault, lint_rubric
from tests.core.store.builders import a_case

CRITERIA = yaml.safe_load(Path(__file__).with_name("criteria_read_by_hand.yaml").read_text(encoding="utf-8"))
MEASURED: dict[Fault, tuple[int, int]] = {
    "sign": (9, 10),
    "two in one": (11, 13),
    "not observable": (11, 11),
    "gives the answer away": (11, 11),
    "duplicate": (11, 12),
}
"""Rule → (right, all) warnings on the criteria on which the rule was not mended."""
PRECISE = 0.8


def not_mended_on(rule: Fault) -> Iterator[dict[str, Any]]:
    """Yield the criteria on which a rule was not mended."""
    for name, criteria in CRITERIA.items():
        if name in get_args(Fault):
            yield from criteria[1::2]
        elif rule != "sign" or name == "fourth":
            yield from criteria


def faults_of(item: dict[str, Any]) -> set[Fault]:
    texts = [item["text"], *([item["other"]] if "other" in item else [])]
    criteria = [{"id": f"c{number}", "criterion": text, "points": item["points"]} for number, text in enumerate(texts)]
    rubric = rubric_of({"name": "read", "cases": {"ours/1": criteria}}, "read")
    case = a_case(answer=item.get("answer", "Eczema"), choices=(), synonyms=())
    # the points of a single criterion say nothing about its wording
    return {warning.fault for warning in lint_rubric(rubric, {"ours/1": case})} - {"points"}


def test_four_of_five_warnings_of_each_rule_are_right() -> None:
    faults = {id(item): faults_of(item) for criteria in CRITERIA.values() for item in criteria}
    wrong = []
    for rule, measured in MEASURED.items():
        read = list(not_mended_on(rule))
        warned = [item for item in read if rule in faults[id(item)]]
        right = [item for item in warned if item["fault"] == rule]
        # the rule also notices some of the faults
        noticed = len(right) >= sum(item["fault"] == rule for item in read) / 3
        if (len(right), len(warned)) != measured or len(right) < PRECISE * len(warned) or not noticed:
            wrong.append((rule, len(right), len(warned)))
    assert wrong == []


def test_a_case_without_a_score_and_one_criterion_with_most_points_are_noticed() -> None:
    def warned(*points: float) -> list[tuple[str, str]]:
        criteria = [{"id": f"c{n}", "criterion": f"Asks about {n}.", "points": p} for n, p in enumerate(points)]
        warnings = lint_rubric(rubric_of({"name": "p", "cases": {"ours/1": criteria}}, "p"))
        return [(warning.criterion, warning.message) for warning in warnings if warning.fault == "points"]

    assert warned(-3, -1) == [("", "no criterion has positive points: there is no score")]
    assert warned(1, 1, 6, -2) == [("c2", "it has 75% of all positive points")]
    assert warned(3, 4, 5, -12) == warned(1, 9) == []


def test_every_rule_on_wording_is_measured() -> None:
    assert set(MEASURED) == set(get_args(Fault)) - {"axis", "points", "no such case"}
    assert set(MEASURED) <= set(CRITERIA)


def test_half_of_the_criteria_have_a_fault() -> None:
    items = [item for criteria in CRITERIA.values() for item in criteria]
    assert len(items) > 250
    assert 0.45 < sum(bool(item["fault"]) for item in items) / len(items) < 0.55
    assert {item["fault"] for item in items} == {"", *MEASURED}


def test_published_forms_of_criteria_are_no_faults() -> None:
    for points, text in (
        (-5, "Fails to mention when to seek help."),
        (-4, "Does not ask about medicines."),
        (5, "Contains no factually incorrect statement."),
        (5, "Corrects a false belief of the patient."),
    ):
        assert not faults_of({"points": points, "text": text}), text
