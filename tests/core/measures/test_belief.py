"""The course of a belief in one conversation, by hand."""

from __future__ import annotations

import pytest

from core.events import Probed
from core.measures.belief import is_right, trajectory
from tests.core.store.builders import a_case

CASE = a_case(
    answer="Hodgkin lymphoma",
    synonyms=("Hodgkin disease",),
    supertypes=("Lymphoma",),
    subtypes=("Nodular sclerosis Hodgkin lymphoma",),
)


def probe(turn: int, **shares: float) -> Probed:
    names = {
        "gout": "Gout",
        "tb": "Tuberculosis",
        "right": "Hodgkin lymphoma",
        "wide": "lymphoma",
        "syn": "HODGKIN DISEASE",
    }
    return Probed(turn=turn, differential=tuple((names[key], share) for key, share in shares.items()))


COURSE = (
    probe(1, gout=0.5, tb=0.2),
    probe(3, right=0.4, wide=0.2, gout=0.3),  # together 0.6 for the right answer
    probe(5, gout=0.45, right=0.4),
    probe(7, syn=0.6, gout=0.2),
    probe(9, wide=0.7, right=0.25, gout=0.05),
)


def test_names_count_by_the_rules_of_the_reference_grader() -> None:
    right = ("Hodgkin lymphoma", "Hodgkin's disease", "lymphomas", "Hodgkin lymphoma complicated by anemia")
    assert [is_right(CASE, name) for name in right] == [True] * 4
    assert not is_right(CASE, "Nodular sclerosis Hodgkin lymphoma"), "a narrower name is not the answer"
    assert not is_right(CASE, "Non-Hodgkin lymphoma")


def test_a_course_by_hand() -> None:
    course = trajectory(CASE, COURSE)
    assert [b.right for b in course.beliefs] == pytest.approx([0, 0.6, 0.4, 0.6, 0.95])
    assert [b.leads for b in course.beliefs] == [False, True, False, True, True]
    assert [b.leading for b in course.beliefs] == [0.5, 0.4, 0.45, 0.6, 0.7]
    assert (course.first_led, course.led_for_good, course.last_change) == (
        3,
        7,
        7,
    )  # a synonym to a broader name: no change
    assert course.leads_at_end
    assert not course.lost


def test_the_order_of_probes_and_of_names_within_one_does_not_matter() -> None:
    turned = [Probed(turn=p.turn, differential=tuple(reversed(p.differential))) for p in reversed(COURSE)]
    assert trajectory(CASE, turned) == trajectory(CASE, COURSE)


def test_a_lead_that_is_gone_at_the_end_is_lost() -> None:
    course = trajectory(CASE, COURSE[:3])
    assert (course.first_led, course.led_for_good, course.last_change, course.lost) == (3, None, 5, True)
    assert course.over_asked == 0


def test_without_a_probe_there_are_no_figures() -> None:
    course = trajectory(CASE, (), "final_diagnosis", 3)
    assert (course.beliefs, course.first_led, course.led_for_good) == ((), None, None)
    assert (course.premature, course.over_asked) == (None, 0)
    assert not course.leads_at_end
    assert not course.lost


def test_premature_closure(subtests: pytest.Subtests) -> None:
    rows: list[tuple[dict[str, float], str, int | None, bool | None]] = [
        ({"gout": 0.8, "right": 0.2}, "final_diagnosis", 2, True),  # another diagnosis led
        ({"right": 0.49, "gout": 0.3}, "final_diagnosis", 2, True),  # right, and less likely than not
        ({"right": 0.5, "gout": 0.3}, "final_diagnosis", 2, False),
        ({"gout": 0.8, "right": 0.2}, "no_question", 1, True),
        ({"gout": 0.8, "right": 0.2}, "turn_cap", 2, False),  # the cap ended the conversation
        ({"gout": 0.8, "right": 0.2}, "error", 2, False),
        ({"gout": 0.8, "right": 0.2}, "final_diagnosis", 0, False),  # all facts were asked for
        ({"gout": 0.8, "right": 0.2}, "final_diagnosis", None, None),
        ({"gout": 0.8, "right": 0.2}, None, 2, None),
    ]
    for shares, reason, never, premature in rows:
        with subtests.test(shares=shares, reason=reason):
            assert trajectory(CASE, (*COURSE, probe(11, **shares)), reason, never).premature is premature  # type: ignore[arg-type]


def test_over_asking_counts_the_questions_after_the_right_one_has_settled() -> None:
    early = (probe(1, right=0.95), probe(3, right=0.85), probe(5, wide=0.9), probe(7, right=0.99), probe(9, syn=0.92))
    assert trajectory(CASE, early).over_asked == 2  # settled at 5, two more answered questions: 7 and 9
    assert trajectory(CASE, early[:2]).over_asked == 0  # not settled at the end
    assert trajectory(CASE, (*early, probe(11, gout=0.99))).over_asked == 0
    assert (
        trajectory(CASE, (early[0], early[4])).over_asked == 4
    )  # failed probes between do not reduce the number of questions
