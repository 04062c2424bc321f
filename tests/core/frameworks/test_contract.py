"""The contract of a framework: how much there is to it, and what becomes of one that was written for an older one."""

from __future__ import annotations

import pytest

from core.errors import UsageError
from core.frameworks.base import Framework, frameworks, grades_itself, paper_arms, usual_arms


def test_the_contract_has_at_most_twenty_members() -> None:
    declared = {*Framework.__annotations__, *vars(Framework)}
    assert len({name for name in declared if not name.startswith("_")}) <= 20


def test_no_framework_of_the_package_adds_to_the_contract() -> None:
    contract = {*Framework.__annotations__, *vars(Framework)}
    for known in frameworks().values():
        assert {name for name in vars(type(known)) if not name.startswith("_")} <= contract, known.name


@pytest.mark.parametrize(
    ("name", "usual", "paper", "own_grader"), [("craftmd", 24, 8, True), ("consultation", 1, 1, False)]
)
def test_what_is_asked_unless_arms_are_named(name: str, usual: int, paper: int, own_grader: bool) -> None:
    known = frameworks()[name]
    assert (len(usual_arms(known)), len(paper_arms(known)), grades_itself(known)) == (usual, paper, own_grader)


@pytest.mark.parametrize("member", [{"mcq_rule": "mcq_strict"}, {"rules": {}}, {"shown": lambda self, role, text: ()}])
def test_what_an_older_folder_says_is_refused_and_never_passed_over(member: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=next(iter(member))):
        type("Old", (Framework,), member)
