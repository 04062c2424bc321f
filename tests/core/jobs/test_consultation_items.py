"""The oracle of Consultation asks for the items that conversations are measured by, also imported and edited ones."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from core.asking.scene import Turn
from core.events import Utterance
from core.frameworks.base import Campaign, framework
from core.frameworks.consultation import ConsultationSettings
from core.frameworks.consultation.measures.history_taking import HISTORY, measure, yardstick
from core.jobs.plan import campaign_of, header_of, prepared_cases
from core.journal import journal_path, read_header
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.history_items import add_items, stored_items
from core.store.tables import CaseListRow
from core.text.case_items import HistoryItem, itemized, items_by_rule, items_to_json
from tests.core.jobs.workshop import begun, go, registry, small_cases, trial_lines
from tests.support.campaigns import beside_rules

DIRECT = "reference/oracle-direct"
THREE = tuple(
    HistoryItem(key=key, value=value, topic="associated symptoms")
    for key, value in (("rash", "red rash"), ("cough", "dry cough"), ("thirst", "great thirst"))
)
TWELVE = (*THREE, *(HistoryItem(key=f"point {n}", value=f"value {n}", topic="negatives") for n in range(9)))
"""More than the ten questions of the cap."""


def store_items(items: tuple[HistoryItem, ...], made_by: str = "mediq") -> None:
    (case,) = small_cases(1)
    with Store().write() as connection:
        add_items(
            connection,
            [CaseListRow(case.case_key, case.content_hash, "items", items_to_json(items), made_by, time.time())],
        )


def campaign(doctor: str = DIRECT, patient: str = "reference/profile") -> Campaign:
    return Campaign(
        names=beside_rules(doctor, patient=patient),
        protocol="consultation",
        prompts="consultation",
        arms=(("multi_turn", "mcq"),),
        settings=ConsultationSettings(),
        cases=prepared_cases(small_cases(1), framework("consultation")).cases,
        case_set="small",
        trials=1,
    )


def dialogue(run_id: str) -> list[Turn]:
    (line,) = trial_lines(run_id)
    return [Turn(event.role, event.text) for event in line.events if isinstance(event, Utterance)]


def played(doctor: str = DIRECT) -> list[Turn]:
    header = begun(campaign(doctor))
    go(header)
    return dialogue(header.run_id)


def questions(turns: list[Turn]) -> list[str]:
    return [turn.text for turn in turns if turn.role == "doctor" and "?" in turn.text]


def questions_about(items: tuple[HistoryItem, ...]) -> list[str]:
    return [f"Can you tell me about {item.key}?" for item in items]


@pytest.mark.slow
@pytest.mark.parametrize("order", ["direct", "random", "reversed"])
def test_imported_items_are_asked_for_completely_in_every_order(db: Path, order: str) -> None:
    store_items(TWELVE)
    questions_asked = questions(played(f"reference/oracle-{order}"))
    assert sorted(questions_asked) == sorted(questions_about(TWELVE))
    if order != "random":
        assert questions_asked == (questions_about(TWELVE) if order == "direct" else questions_about(TWELVE)[::-1])


def test_precision_and_recall_of_the_oracle_by_hand(db: Path) -> None:
    """Three questions of six words contain three keys of one word: recall 3/3, precision 3/18."""
    store_items(THREE)
    (case,) = small_cases(1)
    turns = played()
    against = stored_items(Store(), case)
    assert against is not None
    figures = measure(turns, yardstick(case.vignette, against.items))
    assert figures.doctor_recall == 1
    assert figures.doctor_precision == pytest.approx(3 / 18)
    assert figures.patient_recall == 1
    assert figures.strictness == 1, "a question by a key is not an open question"


@pytest.mark.slow
def test_the_newest_edit_counts_and_a_running_campaign_keeps_its_items(db: Path) -> None:
    store_items(TWELVE)
    header = begun(campaign())
    store_items(THREE, "Ada")
    again = campaign_of(read_header(journal_path(header.run_id)))
    assert again.cases == tuple(header.cases)
    go(header_again := read_header(journal_path(header.run_id)))
    assert questions(dialogue(header_again.run_id)) == questions_about(TWELVE)
    assert questions(played()) == questions_about(THREE)


def test_items_by_rule_come_from_the_present_rule(db: Path) -> None:
    (case,) = small_cases(1)
    by_rule = items_by_rule(case)
    before = questions(played())
    assert before == questions_about(by_rule.items)
    fold(Store())
    assert HISTORY.prepare(Store(), lambda: False)
    assert campaign().cases[0].items is None
    store_items(THREE, "rules-0")
    assert itemized(campaign().cases[0]).items == by_rule.items


def test_items_are_part_of_the_fingerprint_only_if_a_rule_uses_them(db: Path) -> None:
    def fingerprints() -> list[str]:
        casts = [(DIRECT, "openai/p"), ("openai/d", "reference/profile"), ("openai/d", "openai/p")]
        return [header_of(campaign(*cast), registry()).fingerprint for cast in casts]

    before = fingerprints()
    store_items(THREE)
    after = fingerprints()
    assert [old == new for old, new in zip(before, after, strict=True)] == [False, False, True]
