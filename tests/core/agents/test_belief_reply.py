"""A belief is read from a reply with text around it; a reply without one is refused with a reason."""

from __future__ import annotations

import pytest

from core.agents.probe import read_belief

FIVE = (
    '{"diagnoses": [{"diagnosis": "Gout", "probability": 0.5}, {"diagnosis": "Cellulitis", "probability": 0.2}, '
    '{"diagnosis": "Bunion", "probability": 0.1}, {"diagnosis": "Fracture", "probability": 0.05}, '
    '{"diagnosis": "Sprain", "probability": 0.05}]}'
)
READ = (("Gout", 0.5), ("Cellulitis", 0.2), ("Bunion", 0.1), ("Fracture", 0.05), ("Sprain", 0.05))


def test_the_same_belief_in_many_wrappings(subtests: pytest.Subtests) -> None:
    table: list[str] = [
        FIVE,
        f"```json\n{FIVE}\n```",
        f"Of the [many] options {{here}}, I believe:\n\n{FIVE}\n\nI hope this helps.",
        FIVE.partition(": ")[2][:-1],  # the bare list
        '{"Gout": 0.5, "Cellulitis": 0.2, "Bunion": 0.1, "Fracture": 0.05, "Sprain": 0.05}',
        '{"Gout": 50, "Cellulitis": 20, "Bunion": 10, "Fracture": 5, "Sprain": 5}',
        '{"Gout": "50 %", "Cellulitis": "20%", "Bunion": "10%", "Fracture": "5%", "Sprain": "5%"}',
        '{"Sprain": 0.05, "Bunion": "0.1", "Gout": 0.5, "Cellulitis": 0.2, "Fracture": 0.05}',
        '{"Gout": 0.9}\nOn second thoughts: ' + FIVE,
    ]
    for reply in table:
        with subtests.test(reply=reply):
            belief = read_belief(reply)
            assert dict(belief) == pytest.approx(dict(READ))
            assert [name for name, _ in belief][:3] == ["Gout", "Cellulitis", "Bunion"]


def test_only_a_sum_above_one_is_scaled_to_one() -> None:
    assert read_belief('{"Gout": 0.6, "Bunion": 0.2}') == (("Gout", 0.6), ("Bunion", 0.2))
    assert read_belief('{"Gout": 0.9, "Bunion": 0.6}') == (("Gout", pytest.approx(0.6)), ("Bunion", pytest.approx(0.4)))
    assert read_belief('{"Gout": 60, "Bunion": 20}') == (("Gout", pytest.approx(0.6)), ("Bunion", pytest.approx(0.2)))


def test_a_percentage_below_one_is_recognised_by_its_sign() -> None:
    assert read_belief('{"Gout": "0.5%", "Bunion": 0.5}') == (("Bunion", 0.5), ("Gout", pytest.approx(0.005)))


def test_of_more_than_five_diagnoses_the_five_likeliest_stay_with_their_probabilities() -> None:
    belief = read_belief('{"A": 0.3, "B": 0.2, "C": 0.1, "D": 0.1, "E": 0.1, "F": 0.2}')
    assert [name for name, _ in belief] == ["A", "B", "F", "C", "D"]
    assert sum(share for _, share in belief) == pytest.approx(0.9)


def test_a_name_counts_once_and_other_is_no_diagnosis() -> None:
    assert read_belief(
        '[{"diagnosis": "Gout", "probability": 0.2}, {"diagnosis": " gout ", "probability": 0.3}, '
        '{"diagnosis": "Other", "probability": 0.5}]'
    ) == (("Gout", 0.5),)


def test_a_reply_without_a_belief_is_refused_with_a_reason(subtests: pytest.Subtests) -> None:
    table: list[tuple[str, str]] = [
        ("I cannot say.", "no JSON"),
        ("", "no JSON"),
        (
            '{"diagnoses": [{"diagnosis": "Gout", "probability": 0.5}',
            "form",
        ),  # cut off: only the inner object is complete
        ('["Gout", "Bunion"]', "form"),
        ('{"diagnoses": []}', "form"),
        ('{"Gout": "likely"}', "form"),
        ('{"Gout": true}', "form"),
        ('{"": 0.5}', "form"),
        ('{"Gout": -0.1, "Bunion": 0.5}', "outside"),
        ('{"Gout": 120}', "outside"),
        ('{"Gout": NaN}', "outside"),
        ('{"Gout": 0, "Bunion": 0}', "above 0"),
        ('{"Other": 1}', "above 0"),
        ("[" * 100_000, "deep"),
    ]
    for reply, why in table:
        with subtests.test(reply=reply, why=why), pytest.raises(ValueError, match=why):
            read_belief(reply)
