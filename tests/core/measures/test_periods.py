"""Accuracy before and after the end of the training data: figures by hand, and what is left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import AnamnesisError
from core.measures.accuracy import report
from core.measures.base import MetricRequest, Result, Row
from core.measures.notes import result_of
from core.models.registry import load_registry
from core.models.settings import OWN_VARIABLE, SHIPPED, read_settings
from core.stats.differences import unpaired_difference
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.case_labels import add_labels, label_of
from tests.core.store.builders import a_case, a_header, a_trial, answered, graded, invalid, write_journal
from tests.support.stores import copy_of

DATES = {1: "2024-01", 2: "2024-02-10", 3: "2023", 4: "2024-11-05", 5: "2025", 6: "2024-10-20", 8: "2025-01-01"}
"""Number of a case → its date; case 7 has none."""
RIGHT = {1: "11", 2: "10", 3: "11", 4: "00", 5: "10", 6: "11", 7: "11", 8: "xx"}
"""Number of a case → of its two trials the right ones; x: the provider failed."""


@pytest.fixture
def dated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Two doctors on eight cases with two trials; the first has a cutoff in October 2024."""
    models = tmp_path / "models.toml"
    models.write_text('[models."openai/a"]\ncutoff = "2024-10"\n', encoding="utf-8")
    monkeypatch.setenv(OWN_VARIABLE, str(models))
    return copy_of(two_doctors, tmp_path)


def two_doctors(store: Store) -> None:
    cases = [a_case(number) for number in RIGHT]
    for run, doctor in (("a", "openai/a"), ("b", "server/b")):
        header = a_header(run, cases, doctor=doctor, arms=[("multi_turn", "frq")])
        lines = []
        for number, marks in RIGHT.items():
            for trial, mark in enumerate(marks):
                verdict = graded("correct" if mark == "1" else "incorrect")
                events = [invalid("provider_error")] if mark == "x" else [answered(), verdict]
                trial_id = f"{run}/{number}/{trial}"
                fields = {"case_key": f"ours/{number}", "trial": trial, "seed": trial}
                lines.append(a_trial([*events, *a_trial().events[-1:]], trial_id=trial_id, run_id=run, **fields))
        write_journal(store.journals, run, header, *lines)
    fold(store)
    labels = [label_of(cases[number - 1], "date", text, "file", "dates.csv") for number, text in DATES.items()]
    add_labels(store, labels)


def result(store: Store, **options: str) -> Result:
    return result_of(report, MetricRequest(store), {"by": "period", **options})


def test_accuracy_before_and_after_is_that_worked_out_by_hand(dated: Store) -> None:
    """Before: cases 1, 2, 3 with 1, ½, 1. After: cases 4, 5 with 0, ½. Case 6 is of the month of the cutoff."""
    before, after = (row for row in result(dated).rows if isinstance(row, Row))
    assert (before.label["group"], after.label["group"]) == ("before", "after")
    assert before.estimate == pytest.approx(2.5 / 3)
    assert after.estimate == pytest.approx(0.25)
    assert (before.n, after.n) == (3, 2)
    assert after["difference"] == pytest.approx(0.25 - 2.5 / 3)
    expected = unpaired_difference([0, 0.5], [1, 0.5, 1]).interval
    assert (after["difference_low"], after["difference_high"]) == pytest.approx(expected)
    assert before["difference"] is None


def test_every_other_case_is_excluded_with_its_reason(dated: Store) -> None:
    before, after = (row for row in result(dated).rows if isinstance(row, Row))
    assert dict(before.excluded) == {"no date": 1, "date too near to the cutoff": 1}
    assert dict(after.excluded) == {"no date": 1, "date too near to the cutoff": 1, "no answer that counts": 1}
    for row in (before, after):
        assert row.n is not None
    assert before.n + after.n + 1 + 1 + 1 == len(RIGHT)


def test_a_model_without_a_cutoff_has_no_row_and_is_named(dated: Store) -> None:
    visible = result(dated)
    assert {row.label["model"] for row in visible.figures} == {"openai/a"}
    selected = [note for note in visible.warnings if "server/b" in note.text]
    assert len(selected) == 1
    assert any("difficulty" in note.text for note in visible.warnings)


def test_another_cutoff_moves_the_cases(dated: Store) -> None:
    """With a cutoff at the end of 2023 only case 3 can be told: of the others all are later."""
    rows = {row.label["model"]: row for row in result(dated, cutoff="2023-12-31").figures if row["group"] == "after"}
    assert set(rows) == {"openai/a", "server/b"}
    assert rows["server/b"].n == 5
    assert rows["server/b"].excluded["date too near to the cutoff"] == 1


def test_a_label_belongs_to_the_words_of_the_case_and_the_newest_counts(dated: Store) -> None:
    add_labels(dated, [label_of(a_case(4), "date", "2020", "person", "Ada", "first printed")])
    before, after = result(dated).figures
    assert (before.n, after.n) == (4, 1)
    assert before.estimate == pytest.approx(2.5 / 4)
    assert after["difference_low"] is None  # one case has no spread


def test_without_any_date_there_is_no_row(filled_store: Store) -> None:
    with pytest.raises(AnamnesisError, match="a case with a date"):
        result(filled_store)


@pytest.mark.slow
def test_a_note_names_the_source_of_a_cutoff_and_a_date_of_the_user_has_none(dated: Store, tmp_path: Path) -> None:
    models = tmp_path / "models.toml"
    (own,) = [note.text for note in result(dated).notes if "openai/a 2024-10" in note.text]
    assert "without a source" in own
    models.write_text(
        '[models."openai/a"]\ncutoff = { date = "2024-10", source = "https://a.example, read 2026-11-27" }\n'
    )
    (sourced,) = [note.text for note in result(dated).notes if "openai/a 2024-10" in note.text]
    assert "https://a.example, read 2026-11-27" in sourced
    assert "without a source" not in sourced
    assert not [note for note in result(dated, cutoff="2024-10").notes if "https://a.example" in note.text]


def test_a_shipped_cutoff_has_an_address_and_gives_way_to_that_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = {name: model.cutoff for name, model in read_settings([SHIPPED]).models.items() if model.cutoff}
    assert shipped
    for name, cutoff in shipped.items():
        assert not isinstance(cutoff, str), name
        assert cutoff.source.startswith("https://"), name
    models = tmp_path / "models.toml"
    monkeypatch.setenv(OWN_VARIABLE, str(models))
    models.write_text('[models."hf/meta-llama/Llama-3.1-8B-Instruct"]\ncutoff = "2024-01"\n')
    assert load_registry().cutoff("LLaMA-3.1-8b") == ("2024-01", "")
    date, source = load_registry().cutoff("LLaMA-2-7b")
    assert date == "2023-07"  # its card: tuning data up to July 2023
    assert "llama2" in source
    assert load_registry().cutoff("openai/gpt-4") == ("", "")
