"""The contract of a framework: its size, and frameworks that were written for an older contract."""

from __future__ import annotations

import pytest

from core.errors import UsageError
from core.frameworks.base import Framework, frameworks, grades_itself, paper_arms, usual_arms


def test_the_contract_has_at_most_twenty_members() -> None:
    declared = {*Framework.__annotations__, *vars(Framework)}
    assert len({name for name in declared if not name.startswith("_")}) <= 20


def test_no_framework_of_the_package_adds_to_the_contract() -> None:
    contract = {*Framework.__annotations__, *vars(Framework)}
    for protocol in frameworks().values():
        assert {name for name in vars(type(protocol)) if not name.startswith("_")} <= contract, protocol.name


@pytest.mark.parametrize(
    ("name", "default", "paper", "own_grader"), [("craftmd", 25, 8, True), ("consultation", 1, 1, False)]
)
def test_the_default_arms_and_those_of_the_paper(name: str, default: int, paper: int, own_grader: bool) -> None:
    protocol = frameworks()[name]
    assert (len(usual_arms(protocol)), len(paper_arms(protocol)), grades_itself(protocol)) == (
        default,
        paper,
        own_grader,
    )


@pytest.mark.parametrize("member", [{"mcq_rule": "mcq_strict"}, {"rules": {}}, {"shown": lambda self, role, text: ()}])
def test_members_of_an_older_contract_are_refused(member: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=next(iter(member))):
        type("Old", (Framework,), member)
