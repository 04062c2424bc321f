"""Five small dialogues with items, whose measures are counted by hand in the tests."""

from __future__ import annotations

import time
from collections.abc import Sequence

from core.asking.scene import Turn
from core.case import Case
from core.store.database import Store
from core.store.queries.history_items import add_items
from core.store.tables import CaseListRow
from core.text.case_items import HistoryItem, items_to_json


def dialogue(*lines: str) -> tuple[Turn, ...]:
    """Return turns: a line "D: …" is a message of the doctor, "P: …" one of the patient."""
    return tuple(Turn("doctor" if line[0] == "D" else "patient", line[3:]) for line in lines)


def an_item(key: str, value: str, topic: str = "other") -> HistoryItem:
    return HistoryItem.model_validate({"key": key, "value": value, "topic": topic})


def save_items(store: Store, case: Case, items: Sequence[HistoryItem], made_by: str = "openai/p") -> None:
    with store.write() as connection:
        add_items(
            connection,
            [CaseListRow(case.case_key, case.content_hash, "items", items_to_json(items), made_by, time.time())],
        )


COUGH = dialogue(
    "D: What brings you in?",
    "P: I cough.",
    "D: How long do you cough?",
    "P: For two weeks.",
    "D: Final Diagnosis: cold",
)
COUGH_ITEMS = (
    an_item("age", "40 year old man", "demographics"),
    an_item("duration of cough", "cough for two weeks", "onset"),
)

HABITS = dialogue(
    "D: Hello!",
    "P: My knee is sore.",
    "D: Do you smoke?",
    "P: No.",
    "D: Do you drink?",
    "P: I drink wine.",
    "D: **Final Diagnosis:** gout",
)
HABITS_ITEMS = (
    an_item("alcohol", "drinks wine", "social history"),
    an_item("complaint", "sore knee", "chief complaint"),
)

STUBBORN = dialogue(
    "D: Hello!",
    "P: Hello.",
    "D: Any pain?",
    "P: No.",
    "D: Pain, any?",
    "P: No!",
    "D: ANY PAIN?",
    "P: I said no.",
    "D: Then it is nothing.",
)
STUBBORN_ITEMS = (an_item("pain", "no pain", "negatives"),)

HASTY = dialogue("D: What is it?", "P: Red, rash, red! Red...", "D: final diagnosis: rubella")
HASTY_ITEMS = (an_item("skin", "red red rash", "chief complaint"),)

CAPPED = dialogue("P: Please help, I am coughing.", "D: Coughs at night?", "P: I cough nightly.", "D: Is there blood?")
CAPPED_ITEMS = (an_item("cough at night", "coughed nightly", "character"), an_item("blood", "no blood", "negatives"))

ALL = {
    "cough": (COUGH, COUGH_ITEMS),
    "habits": (HABITS, HABITS_ITEMS),
    "stubborn": (STUBBORN, STUBBORN_ITEMS),
    "hasty": (HASTY, HASTY_ITEMS),
    "capped": (CAPPED, CAPPED_ITEMS),
}
