"""docs/coverage.md is true: each command succeeds and gives rows, and each page shows the figure that is named."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.docs.coverage_rows import COVERAGE, Address, CoverageRow, read_rows
from tests.pages.conftest import _awaited_at_rest, _scanned_once  # noqa: F401 (pages are opened here, too)
from tests.support.pages import run_until, trouble, visit
from tests.support.study import Study, studying

ROWS = read_rows(COVERAGE.read_text(encoding="utf-8"))
WORKING = [row for row in ROWS if row.works]
Place = tuple[str, tuple[tuple[str, str], ...]]
"""A page and its URL parameters."""
RELEASE = os.environ.get("ANAMNESIS_CRAFTMD_RELEASE", "")
MAKING = ("run", "job", "experts fill", "experts plan", "data development", "export")
"""Beginnings of commands that make something; the others print rows."""
needs_release = pytest.mark.skipif(
    not RELEASE, reason="needs the CRAFT-MD authors' release: set ANAMNESIS_CRAFTMD_RELEASE to its folder"
)
release_or_not = pytest.mark.parametrize(
    "release", [False, pytest.param(True, marks=needs_release)], ids=["sample", "release"]
)


def distinct(rows: list[CoverageRow], *, release: bool) -> list[tuple[str, ...]]:
    chosen = [command for row in rows if row.needs_release == release for command in row.commands]
    return list(dict.fromkeys(chosen))


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    """The sample study with more, after the commands of the rows that make something, in their order."""
    with studying(tmp_path_factory.mktemp("coverage")) as made:
        for words in distinct(WORKING, release=False):
            if " ".join(words).startswith(MAKING):
                made.results[words] = made.run(*words)
        if RELEASE:
            result = made.run("import", "craftmd", RELEASE)
            assert result.status == 0, result.errors
        yield made


def gives_rows(study: Study, words: tuple[str, ...]) -> bool:
    """Return whether a command succeeds and makes or prints rows."""
    if words[0] == "report":
        printed = study.run(*words, "--format", "csv")
        rows = csv.DictReader(io.StringIO(printed.text))
        return printed.status == 0 and any(
            value for row in rows for name, value in row.items() if name not in ("notes", None)
        )
    printed = study.results[words] if words in study.results else study.run(*words)
    return printed.status == 0 and (
        printed.made > 0 if " ".join(words).startswith(MAKING) else bool(printed.text.strip())
    )


def test_every_item_is_named_once_and_nearly_all_work() -> None:
    assert len(ROWS) >= 94
    names = [(row.paper, row.item) for row in ROWS]
    assert len(set(names)) == len(names)
    assert len({row.paper for row in ROWS}) == 4, "three papers and a preprint"
    assert len(WORKING) >= 0.9 * len(ROWS)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@release_or_not
def test_every_command_gives_rows(study: Study, release: bool) -> None:
    assert [" ".join(words) for words in distinct(WORKING, release=release) if not gives_rows(study, words)] == []


def addresses(*, release: bool) -> dict[Place, list[str]]:
    """Return place → the keys of its tables and figures that rows name."""
    keys: dict[Place, list[str]] = {}
    for row in WORKING:
        if row.address and row.needs_release == release:
            listed = keys.setdefault((row.address.page, row.address.query), [])
            if row.address.key not in listed:
                listed.append(row.address.key)
    return keys


@pytest.mark.slow
@pytest.mark.timeout(1800)
@release_or_not
def test_every_page_shows_the_figures(study: Study, release: bool) -> None:
    found = {place: problems(place, keys) for place, keys in addresses(release=release).items()}
    assert {place: faults for place, faults in found.items() if faults} == {}


def problems(place: Place, keys: list[str]) -> list[str]:
    """Return the errors of a page, or those of these figures and tables that have no rows after half a minute."""
    app = AppTest.from_file(str(COVERAGE.parents[1] / "app.py"), default_timeout=120)
    for name, value in place[1]:
        app.query_params[name] = value
    visit(app, place[0])
    with contextlib.suppress(AssertionError):
        # measures may be computed in another process
        run_until(app, lambda app: bool(trouble(app)) or not lacking(app, keys), seconds=30)
    return trouble(app) or lacking(app, keys)


def lacking(app: AppTest, keys: list[str]) -> list[str]:
    """Return the keys of figures and tables without rows."""
    shown = [name for name, count in rows_drawn(app) if count]
    return [key for key in keys if not any(name == key or name.startswith((f"{key}_", f"{key}-")) for name in shown)]


def rows_drawn(app: AppTest) -> list[tuple[str, int]]:
    """Return the key of each figure and table with the number of its marks or rows, in the order of the page.

    A table without clickable rows has its key only in the download button that follows it.
    """
    drawn: list[tuple[str, int]] = []

    def walk(block: Any) -> None:
        for element in getattr(block, "children", {}).values():
            if element.type == "dataframe":
                drawn.append((key_of(element), len(element.value)))
            elif element.type == "plotly_chart":
                drawn.append((key_of(element), sum(map(marks, json.loads(element.proto.spec)["data"]))))
            elif key_of(element).endswith("_csv") and drawn and not drawn[-1][0]:
                drawn[-1] = (key_of(element).removesuffix("_csv"), drawn[-1][1])
            walk(element)

    walk(app._tree)
    return drawn


def key_of(element: Any) -> str:
    return re.sub(r"^\$\$ID-[0-9a-f]+-", "", getattr(getattr(element, "proto", None), "id", ""))


def marks(trace: dict[str, Any]) -> int:
    """Return the number of marks of a trace; arrays are lists, or numbers in base 64."""
    values: Any = next((trace[name] for name in ("y", "x", "z", "r", "values") if trace.get(name) is not None), [])
    return len(values["bdata"]) if isinstance(values, dict) else len(values)


@pytest.mark.slow
def test_a_key_in_an_address_is_not_met_by_an_empty_table() -> None:
    def page() -> None:
        import pandas as pd

        from pages.kit.tables import draw_table

        draw_table(pd.DataFrame({"a": []}), "empty")
        draw_table(pd.DataFrame({"a": [1, 2]}), "filled")

    assert dict(rows_drawn(AppTest.from_function(page, default_timeout=60).run())) == {"empty": 0, "filled": 2}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("| Table 1 | [A][a] | `python -m core report accuracy` |", "four cells"),
        ("| Table 1 | [A][b] | `python -m core report accuracy` | works |", "no address"),
        ("| Table 1 | – | – | works |", "has a page and a command"),
        ("| Table 1 | – | – | partly |", "cannot"),
    ],
)
def test_a_faulty_row_is_refused(line: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_rows(f"## P\n{line}\n\n[a]: http://127.0.0.1:8501/accuracy?acc_split=specialty#accuracy_mcq\n")


def test_an_address_is_read_with_its_parameters() -> None:
    (row,) = read_rows(
        "## P\n| Table 1 | [A][a] | `python -m core report accuracy` | works |\n\n"
        "[a]: http://127.0.0.1:8501/accuracy?acc_tab=Endings+and+what-if#endings\n"
    )
    assert row.address == Address("accuracy", (("acc_tab", "Endings and what-if"),), "endings")
    assert row.commands == (("report", "accuracy"),)
