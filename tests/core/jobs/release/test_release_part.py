"""The authors' files, imported and compared with counts from the JSON. They are not part of this project.

Needs a copy of the release, or a part of it, in the folder that ANAMNESIS_CRAFTMD_RELEASE names.
"""

from __future__ import annotations

import csv
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.events import Answered, Utterance
from core.frameworks.craftmd.release import RELEASE
from core.jobs.release.importing import ImportReport, import_release
from core.store.database import Store
from core.store.queries.runs import runs
from core.store.queries.trials import trial_events

COPY = os.environ.get("ANAMNESIS_CRAFTMD_RELEASE", "")
pytestmark = [
    pytest.mark.skipif(not COPY, reason="ANAMNESIS_CRAFTMD_RELEASE names no copy of the CRAFT-MD authors' release"),
    pytest.mark.xdist_group("craftmd_release"),
]
FORMATS = {"vignette": "vignette", "multi_turn": "multiturn", "single_turn": "singleturn", "summarized": "summarized"}


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, ImportReport]]:
    path = tmp_path_factory.mktemp("release") / "anamnesis.duckdb"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANAMNESIS_DB", str(path))
        layout = RELEASE.find(Path(COPY), "release")
        yield Store(), import_release(Store(), layout, layout.models)


@pytest.fixture(scope="module")
def files() -> dict[str, dict[str, dict[str, Any]]]:
    contents: dict[str, dict[str, dict[str, Any]]] = {}
    for path in Path(COPY).glob("results/*/case_*.json"):
        contents.setdefault(path.parent.name, {})[path.stem] = json.loads(path.read_text(encoding="utf-8"))
    return contents


def trials(stored: dict[str, Any]) -> list[dict[str, Any]]:
    return [stored[f"trial_{number}"] for number in range(5)]


def query(store: Store, sql: str, *values: object) -> list[tuple[Any, ...]]:
    with store.read() as cursor:
        return cursor.execute(sql, list(values)).fetchall()


def test_every_file_is_imported(imported: tuple[Store, ImportReport], files: dict[str, Any]) -> None:
    _, report = imported
    assert report.quarantined == ()
    assert report.rejected_cases == ()
    assert {m.folder: m.taken for m in report.models} == {
        f"results/{name}": len(cases) for name, cases in files.items()
    }
    assert {m.folder: m.trials for m in report.models} == {
        f"results/{name}": 5 * len(cases) for name, cases in files.items()
    }


def test_scores_follow_from_the_files(imported: tuple[Store, ImportReport], files: dict[str, Any]) -> None:
    """Every case and arm: (right, counted), with multiple choice judged by the paper's substring rule."""
    store, _ = imported
    rows = query(
        store,
        """SELECT run_id, case_key, format, question_type, count(*) FILTER (verdict = 'correct'),
            count(*) FILTER (verdict IN ('correct', 'incorrect', 'no_diagnosis', 'multiple'))
        FROM verdicts JOIN trials USING (trial_id) WHERE rule <> 'mcq_strict' GROUP BY ALL""",
    )
    scores = {(run, key.split("/")[1], f, q): (right, counted) for run, key, f, q, right, counted in rows}
    expected = {}
    for folder, cases in files.items():
        for case_id, stored in cases.items():
            for format_, name in FORMATS.items():
                responses = [t[f"{name}_mcq"] for t in trials(stored) if isinstance(t[f"{name}_mcq"], str)]
                judged = [t[f"evaluation_{name}_frq"] for t in trials(stored) if t[f"evaluation_{name}_frq"] != -1]
                right = sum(stored["correct_ans"].lower() in text.lower() for text in responses)
                expected[f"craftmd-{folder}", case_id, format_, "mcq"] = (right, len(responses))
                expected[f"craftmd-{folder}", case_id, format_, "frq"] = (judged.count(1), len(judged))
    assert scores == expected


def test_endings_follow_from_the_last_messages(imported: tuple[Store, ImportReport], files: dict[str, Any]) -> None:
    store, _ = imported
    for folder, cases in files.items():
        conversations = [t["multiturn_conversation"] for stored in cases.values() for t in trials(stored)]
        longest = max(map(len, conversations))
        expected: Counter[str] = Counter()
        for conversation in conversations:
            last = conversation[-1]["content"]
            capped = "turn_cap" if not folder.startswith("gpt") and len(conversation) == longest else "error"
            expected[
                "final_diagnosis" if "Final Diagnosis" in last else "no_question" if "?" not in last else capped
            ] += 1
        rows = query(
            store, "SELECT end_reason, count(*) FROM trials WHERE run_id = ? GROUP BY ALL", f"craftmd-{folder}"
        )
        assert dict(rows) == expected, folder
        turns = sum(
            len(conversation) // 2 - 1 for conversation in conversations
        )  # prompt, greeting, then patient and doctor in turns
        assert query(store, "SELECT sum(doctor_turns) FROM trials WHERE run_id = ?", f"craftmd-{folder}") == [(turns,)]


def test_runs_keep_the_order_of_the_data_set(imported: tuple[Store, ImportReport], files: dict[str, Any]) -> None:
    store, _ = imported
    with (Path(COPY) / "data" / "usmle_and_derm_dataset.csv").open(encoding="utf-8-sig", newline="") as file:
        order = [row["case_id"] for row in csv.DictReader(file)]
    for folder, cases in files.items():
        rows = query(store, "SELECT case_key FROM run_cases WHERE run_id = ? ORDER BY position", f"craftmd-{folder}")
        assert [key for (key,) in rows] == [f"craftmd/{name}" for name in order if name in cases]


def test_transcripts_equal_the_messages_of_the_files(
    imported: tuple[Store, ImportReport], files: dict[str, Any]
) -> None:
    store, _ = imported
    for folder, cases in files.items():
        for case_id in sorted(cases)[::400]:
            sql = "SELECT trial_id FROM trials WHERE run_id = ? AND case_key = ? AND trial = 4"
            ((trial_id,),) = query(store, sql, f"craftmd-{folder}", f"craftmd/{case_id}")
            with store.read() as cursor:
                events = trial_events(cursor, trial_id)
            stored = cases[case_id]["trial_4"]
            texts = [m["content"] for m in stored["multiturn_conversation"][1:]]
            assert [e.text for e in events if isinstance(e, Utterance)] == texts
            answers = {(e.format, e.question_type): e.response for e in events if isinstance(e, Answered)}
            assert answers["summarized", "frq"] == stored["summarized_frq"]


def test_models_were_run_under_different_prompts(imported: tuple[Store, ImportReport]) -> None:
    store, report = imported
    assert [len(m.prompts) for m in report.models] == [1] * len(report.models)
    with store.read() as cursor:
        hashes = {run.doctor: run.prompt_hash for run in runs(cursor)}
    for first, second in (("gpt_3_5", "mistral_v1_7b"), ("mistral_v1_7b", "mistral_v2_7b")):
        assert first not in hashes or hashes[first] != hashes.get(second)
