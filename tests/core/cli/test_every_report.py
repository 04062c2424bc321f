"""Every report of the registry: what its command prints and writes is the result of its metric, with all its notes.

The figures have their tests in the metrics; what is special to one command has its own.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Mapping
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from core.cli import options as cli_options
from core.cli import report
from core.cli.app import main
from core.cli.options import print_rows
from core.measures.base import Metric, MetricRequest, Result, cell_in_words
from core.measures.notes import result_of
from core.measures.registry import metrics
from core.reviews.reviewing import unblind
from core.store.database import Store
from core.store.selection import Selection
from tests.core.cli.test_blinded_reviews import TOKEN, begin_review
from tests.core.cli.test_conditions import store_run
from tests.core.frameworks.automedic.measures.consultations import a_consultation, automedic
from tests.core.measures.experts.reviews import a_review, answer_all, store_conversations
from tests.core.store.builders import write_journal
from tests.support.judged_rubric import store_judged
from tests.support.stores import campaign, copy_of

ASK = "<patient>Since when?</patient>"
OPTIONS: Mapping[str, dict[str, str]] = {"monitor": {"versions": "openai/b,openai/c"}, "experts": {"review": "First"}}
"""Report → the options that it needs here."""
WITHOUT_ROWS = set(
    "calibration graded_choices graders hypotheses judge_check ledger memorisation preferences prefixes prompts"
    " rubric_differences rubric_safety served urgency urgency_words".split()
)
"""Reports of jobs, or of runs, that the study does not have; the judged runs share no case of equal content."""
PICTURES = 2
"""As many reports with a severe note are drawn."""


def study(store: Store) -> None:
    """Runs of three frameworks, of two patients and with beliefs; a review and a rubric with all their verdicts.

    One more review is in progress, whose answers have a token.
    """
    campaign(store)
    store_run(store, "probed", patient="openai/other")
    consultations = [a_consultation(n, [ASK] * 3 + ["</end>"], rating=n, run_id="cared") for n in (1, 2, 3)]
    write_journal(store.journals, "cared", automedic("cared", range(1, 4), doctor="openai/c"), *consultations)
    store_conversations(store)
    review = a_review(store, number=12, kind="answers", shared=1)
    for expert in ("Ada", "Ben"):
        answer_all(store, review, expert)
    unblind(store, "First", "Ada", "a test")
    begin_review(store, "Talks", "conversations", "missing_facts")
    store_judged(store)


def words(cells: list[dict[str, Any]]) -> list[str]:
    """Return the words of a table, sorted."""
    columns = dict.fromkeys(name for row in cells for name in row if name != "notes")
    heads = [name.replace("_", " ") for name in columns]
    texts = [cell_in_words(name, row.get(name)) for row in cells for name in columns]
    return sorted(" ".join([*heads, *texts]).split())


def same_cell(text: str, value: Any) -> bool:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return text == ""
    if isinstance(value, float):
        return math.isclose(float(text), value, rel_tol=1e-5, abs_tol=1e-6)
    return text.removeprefix("'") == str(value)  # the apostrophe keeps spreadsheets from computing a text


def plain(value: Any) -> Any:
    """Return what JSON makes of a value."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def letters(text: str) -> str:
    r"""Return a text without markup, escapes and spaces: ``a\u003cbr\u003e b`` is ``ab``."""
    text = re.sub(r"\\u([0-9a-f]{4})", lambda found: chr(int(found[1], 16)), text)
    return re.sub(r"[\s\\]", "", unescape(re.sub(r"<[^<>]*>", "", text)))


def test_table_csv_json_and_picture_have_the_rows_and_notes_of_the_metric(
    db: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_of(study, db.parent)
    results: dict[str, Result] = {}

    def once(metric: Metric, request: MetricRequest, options: dict[str, Any]) -> Result:
        """Compute a result once, with the metric's own defaults, whatever it is printed as."""
        assert request.selection == Selection(), metric.name
        assert options == {o.name: o.default for o in metric.options()} | OPTIONS.get(metric.name, {}), metric.name
        if metric.name not in results:
            results[metric.name] = result_of(metric, request, options)
        return results[metric.name]

    monkeypatch.setattr(report, "result_of", once)
    monkeypatch.setattr(cli_options, "_PIPED", 100_000)  # no line is folded
    faults: list[str] = []
    empty: set[str] = set()
    drawn: set[str] = set()
    for name in metrics():
        given = [part for option, value in OPTIONS.get(name, {}).items() for part in (f"--{option}", value)]
        command = ["report", name, *given]
        status = main(command)
        printed = capsys.readouterr()
        if status:
            empty.add(name)
            if status != 1 or printed.out or not printed.err.rstrip().endswith((".", ")")):
                faults.append(f"{name} without rows: status {status}, {printed.out}{printed.err}")
            continue
        result = results[name]
        notes = [f"{'Note: ' if note.severity == 'high' else ''}{note.text}" for note in result.notes]
        lines = printed.out.splitlines()
        table, below = lines[: len(lines) - len(notes)], lines[len(lines) - len(notes) :]
        if below != notes:
            faults.append(f"{name}: the notes below the table")
        if sorted(" ".join(table).split()) != words(result.cells()):
            faults.append(f"{name}: the table")
        if TOKEN in printed.out + printed.err:
            faults.append(f"{name}: an answer of a review in progress")

        # the other forms are printed by one function; the commands themselves write those of a few reports
        by_command = bool(result.warnings) and len(drawn) < PICTURES
        rows, picture = tmp_path / f"{name}.csv", tmp_path / f"{name}.html"
        if by_command:
            assert main([*command, "--format", "json"]) == 0
        else:
            print_rows(result.cells(plain=True), "json", metrics()[name].decimals)
        printed = capsys.readouterr()
        if json.loads(printed.out) != plain(result.cells(plain=True)):
            faults.append(f"{name}: JSON")
        if by_command and printed.err.splitlines()[-len(notes) :] != notes:
            faults.append(f"{name}: the notes with JSON")
        if TOKEN in printed.out + printed.err:
            faults.append(f"{name}: JSON with an answer of a review in progress")

        cells = result.cells()
        if by_command:
            status = main([*command, "--format", "csv", "--out", str(rows), "--figure", str(picture)])
            capsys.readouterr()
        else:
            print_rows(cells, "csv", metrics()[name].decimals)
            rows.write_text(capsys.readouterr().out, encoding="utf-8")
        stored = list(csv.DictReader(io.StringIO(rows.read_text(encoding="utf-8"))))
        if len(stored) != len(cells) or not all(
            same_cell(line[column], row.get(column)) for line, row in zip(stored, cells, strict=True) for column in line
        ):
            faults.append(f"{name}: CSV")
        if by_command and status == 0:
            drawn.add(name)
            subtitle = letters(picture.read_text(encoding="utf-8").rpartition("Plotly.newPlot")[2])
            caption = picture.with_name(f"{picture.name}.txt").read_text(encoding="utf-8").strip()
            if letters(caption[:60]) not in subtitle:
                faults.append(f"{name}: the picture has another caption than its file")
            faults += [
                f"{name}: {note.text} is not in the caption" for note in result.warnings if note.text not in caption
            ]
            picture.unlink()
        elif picture.exists():
            faults.append(f"{name}: a picture in spite of status {status}")
    assert not faults, "\n".join(faults)
    assert empty == WITHOUT_ROWS, " ".join(sorted(empty))
    assert len(drawn) == PICTURES
