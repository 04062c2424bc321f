"""Parts of the CARE page by themselves: figures, and a conversation divided around one message."""

from __future__ import annotations

import re

from core.figures.shares import Segment, stacked
from core.frameworks.automedic.measures.published import published_parts, published_r, published_summaries
from core.frameworks.automedic.measures.quality import consultations
from core.frameworks.consultation.measures.quality import asked_and_told
from core.measures.base import Row
from core.measures.quality import missed


def test_a_consultation_is_told_in_counts() -> None:
    summary = {
        "trials": 7, "n_items": 7, "acc_conv": 0.5, "acc_static": 0.75, "counted": 6, "failed": 4, "role_breaking": 2,
        "abrupt_termination": 0, "invalid_answer": 3,
    }  # fmt: skip
    habits = {"queries": 20, "to_staff": 0.25, "repeated": 0.05}
    said = consultations([Row({"model": "a"}, 0.3, n=4, more=summary)], [Row({"model": "a"}, 4.0, more=habits)])
    numbers = re.findall(r"\d+", said["a"])
    # conversations and cases; questions, to staff, repeated; cases with both answers, right; failed of counted; kinds
    assert numbers == ["7", "7", "20", "5", "1", "4", "50", "75", "4", "6", "2", "3"]
    facts = [
        Row({"model": model, "topic": topic, "mark": mark}, share)
        for model, topic, mark, share in (
            ("a", "medication", "never_elicited", 0.6),
            ("a", "allergies", "never_elicited", 0.9),
            ("a", "age", "never_elicited", 0.0),
            ("a", "age", "asked", 1.0),
            ("b", "smoking", "never_elicited", 1.0),
        )
    ]
    assert re.findall(r"(\w+) \((\d+)%", missed(facts, "a")) == [("allergies", "90"), ("medication", "60")]
    measured = [
        Row({"model": "a", "measure": "queries"}, 3.25, more={"n_conversations": 8}),
        Row({"model": "a", "measure": "patient_recall"}, 0.4),
        Row({"model": "a", "measure": "accuracy"}, 0.75, n=4),
    ]
    assert re.findall(r"[\d.]*\d", asked_and_told(measured)["a"]) == ["8", "3.2", "40", "75", "4"]


def test_stacked_bars_leave_out_what_does_not_occur() -> None:
    segments = [
        Segment("often", "#0072B2", "white", [0.5, 0.01], [50, 1]),
        Segment("never", "#E69F00", "white", [0.0, 0.0], [0, 0]),
    ]
    figure = stacked(["a", "b"], segments, "Share", "conversations")
    assert [bar.name for bar in figure.data] == ["often"]
    assert figure.data[0].text == ("50", ""), "a number that is wider than its part is left to the hover"
    assert figure.data[0].customdata[1][0] == "b<br>often: 1 conversations (1.0%)"


def test_the_published_figures_are_the_papers() -> None:
    claude, llama = published_summaries()
    # table 3 of the paper
    values = claude.cells(plain=True)
    assert {name: values[name] for name in ("accuracy", "efficiency", "empathy", "robustness")} == {
        "accuracy": 0.4699,
        "efficiency": 1.0192,
        "empathy": 0.8520,
        "robustness": 0.9333,
    }
    assert (llama.label["model"], llama["efficiency"], llama["trials"]) == ("LLaMA-3 70B", 0.6703, 15)
    assert {row.source for row in published_parts()} == {"table 3"}
    assert published_r() == 0.7547
