"""The Reproduce page without a browser."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.cli.app import main
from core.frameworks.consultation.measures.published import PUBLICATION
from core.measures.counterparts import PUBLICATIONS
from core.measures.reproduce.release import PrintedNumber, Reproduction
from core.store.database import Store
from pages.reproduce import _PUBLICATIONS as PUBLICATIONS_OF_PAGE
from pages.reproduce import cells_table, overview
from tests.core.measures.graders.graded import three_graders
from tests.support.pages import trouble, words


def _cell(status: str, table: int = 1, **changes: object) -> PrintedNumber:
    given: dict[str, object] = {
        "table": table,
        "quantity": "mean",
        "model": "gpt_3_5",
        "question_type": "mcq",
        "format": "vignette",
        "specialty": None,
        "dataset": None,
        "arm_a": None,
        "arm_b": None,
        "published": 0.5,
        "printed": "0.5",
        "recomputed": 0.5,
        "status": status,
    }
    return PrintedNumber(**{**given, **changes})  # type: ignore[arg-type]


def test_without_a_release_the_page_says_how_to_get_one(open_page: Callable[..., AppTest]) -> None:
    app = open_page("reproduce")
    assert not trouble(app)
    assert "import craftmd" in words(app).replace("\\", "")


def test_the_overview_counts_the_cells_of_each_table() -> None:
    cells = (_cell("match"), _cell("match"), _cell("misprint"), _cell("differs", table=2))
    table = overview(Reproduction({}, cells, ()))
    assert table.set_index("Table").loc["1", ["Match", "Misprint", "Differ", "Not attempted"]].tolist() == [2, 1, 0, 0]
    assert table.set_index("Table").loc["2", "Differ"] == 1


def test_cells_show_names_and_no_empty_columns() -> None:
    table = cells_table([_cell("match"), _cell("differs", printed="0.6")])
    assert list(table["Model"]) == ["GPT-3.5", "GPT-3.5"]
    assert "Specialty" not in table
    assert list(table["Published"]) == ["0.5", "0.6"]


@pytest.mark.skipif(
    not os.environ.get("ANAMNESIS_CRAFTMD_RELEASE"),
    reason="ANAMNESIS_CRAFTMD_RELEASE names no folder with the authors' release",
)
def test_every_attempted_cell_of_the_release_matches_or_is_a_misprint(
    database: Path, open_page: Callable[..., AppTest]
) -> None:
    assert main(["import", "craftmd", os.environ["ANAMNESIS_CRAFTMD_RELEASE"]]) == 0
    app = open_page("reproduce")
    assert not trouble(app)
    counts = {metric.label: metric.value for metric in app.metric}
    assert counts["Differ"] == "0"
    assert int(counts["Match"].replace(",", "")) > 1_000


def test_printed_figures_stand_there_on_an_empty_database_and_beside_ours(open_page: Callable[..., AppTest]) -> None:
    for publication, column, value in (
        (PUBLICATIONS["paper"], "Format", "Multi-turn"),
        (PUBLICATIONS["preprint"], "Format", "Exam only"),
        (PUBLICATION, "Figure", "Patient recall"),
    ):
        app = open_page("reproduce", reproduce_tab="Published and own", reproduce_published=publication)
        assert not trouble(app)
        table = next(frame.value for frame in app.dataframe if "Difference" in frame.value.columns)
        assert value in set(table[column]), set(table[column])
        assert table["Published"].notna().all()
        assert table["Ours"].isna().all()


def test_printed_tests_and_experts_say_why_a_value_is_missing(open_page: Callable[..., AppTest]) -> None:
    for publication, column, count in (("tests", "p here", 144), ("experts", "Value here", 32 + 29)):
        app = open_page(
            "reproduce", reproduce_tab="Published and own", reproduce_published=PUBLICATIONS_OF_PAGE[publication]
        )
        assert not trouble(app)
        table = next(frame.value for frame in app.dataframe if "State" in frame.value.columns)
        assert len(table) == count
        assert table["Published"].notna().all()
        assert table[column].isna().all()
        assert table["State"].notna().all()


def test_an_own_model_stands_beside_the_printed_ones(database: Path, open_page: Callable[..., AppTest]) -> None:
    three_graders(Store(database))
    app = open_page("reproduce", reproduce_tab="Beside ours")
    assert not trouble(app)
    table = next(frame.value for frame in app.dataframe if "Difference" in frame.value.columns)
    fits = (table["Model"] == "GPT-4") & (table["Format"] == "Multi-turn") & (table["Question"] == "Free response")
    row = table[fits].iloc[0]
    assert row["Ours"].startswith("openai/")
    assert not row["Same model"]
    assert row["Difference"] == pytest.approx(row["Value"] - row["Published"])
