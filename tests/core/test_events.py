"""Events of journals, also those of earlier versions."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from core.events import EVENTS, Assessed, Started
from core.journal import TrialLine
from core.store.rows import child_rows
from core.store.tables import MisuseRow, RatingRow

MISUSED = {"kind": "misused", "turn": 4, "kinds": ["nested", "empty"], "detail": "<patient><clinical>"}
RATED = {"kind": "rated", "quality": "empathy", "rater": "openai/p", "rating": 4, "words": "Kind.", "call_id": "c7"}


def test_misuses_and_ratings_of_version_0_5_are_read() -> None:
    events = EVENTS.validate_python([MISUSED, RATED])
    assert events == [
        Assessed(name="misuse", turn=4, values=("nested", "empty"), words="<patient><clinical>"),
        Assessed(name="empathy", value=4, most=5, by="openai/p", words="Kind.", call_id="c7"),
    ]
    line = TrialLine(run_id="r", trial_id="t", case_key="library/1", trial=0, seed=1, events=events, finished_at=2.0)
    rows = child_rows(line)
    assert rows == [
        MisuseRow("t", 4, ["nested", "empty"], "<patient><clinical>"),
        RatingRow("t", "empathy", "openai/p", 4, "Kind.", "c7"),
    ]
    assert EVENTS.validate_json(EVENTS.dump_json(events)) == events, "events are written in the new form"


def test_an_unreadable_rating_of_version_0_5_has_no_value() -> None:
    (event,) = EVENTS.validate_python([{"kind": "rated", "rater": "reference/profile", "rating": None}])
    assert event == Assessed(name="empathy", most=5, by="reference/profile")


def test_a_damaged_event_is_refused(subtests: pytest.Subtests) -> None:
    table: list[dict[str, object]] = [
        {**RATED, "rating": 6},
        {**RATED, "rating": 0},
        {name: value for name, value in RATED.items() if name != "rater"},
        {name: value for name, value in MISUSED.items() if name != "turn"},
        {"kind": "assessed", "name": "empathy", "value": 11, "most": 10},
    ]
    for event in table:
        with subtests.test(event=event), pytest.raises(ValidationError):
            EVENTS.validate_python([event])


def test_a_started_event_with_a_condition_is_still_read() -> None:
    old = {"kind": "started", "trial_id": "t", "case_key": "library/1", "trial": 0, "seed": 1, "at": 1.0}
    (event,) = EVENTS.validate_python([{**old, "framework": "automedic", "framework_version": 2, "condition": "3f"}])
    assert event == Started(
        trial_id="t", case_key="library/1", trial=0, seed=1, at=1.0, framework="automedic", framework_version=2
    )
