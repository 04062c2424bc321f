"""Stores of version 0.5 are read completely: their databases are migrated, and their journals make the same rows.

The expected numbers are those that version 0.5 itself printed (databases/README.md).
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from core.cli.app import main
from core.measures.base import MetricRequest
from core.measures.notes import result_of
from core.measures.registry import metrics
from core.paths import journals_of
from core.reviews.state import state_of
from core.store.database import Store
from core.store.fold import fold
from core.store.former import FORMER, Former
from core.store.queries.cases import cases
from core.store.selection import Selection
from core.store.stored_table import People
from core.store.tables import TABLES
from core.store.upkeep import verify
from tests.core.store.old import unpack_golden

NAMES = ("version_0_5_0", "version_0_5_1")

LINES: Mapping[str, Mapping[str, int]] = {
    "version_0_5_0": {
        **{"completions": 2, "fact_judgements": 6, "history_items": 1, "patient_judgements": 6, "prefix_answers": 42},
        **{"profiles": 3, "run_labels": 2, "variants": 1},
    },
    "version_0_5_1": {
        **{"case_labels": 1, "completions": 2, "continuations": 16, "fact_judgements": 6, "history_items": 3},
        **{"model_ratings": 20, "patient_judgements": 6, "prefix_answers": 42, "profiles": 3, "replicates": 32},
        **{"rubric_judgements": 46, "urgency_answers": 4, "variants": 1},
        **{"annotation": 112, "case_label": 7, "facts": 1, "label": 2, "plan": 1, "profile": 1, "report_field": 2},
        **{"review": 5, "rubric": 1, "unblinding": 3},
    },
}
"""Store → table of rows, or kind of rows by people → the number of its lines in the journals."""
SKIPPED = {"continuations", "plan", "replicates"}
"""The kinds of lines that this version does not have any more."""

OF_BOTH = {"completions": 2, "forks": 1, "prefix_answers": 42}
JOURNALED: Mapping[str, Mapping[str, int]] = {
    "version_0_5_0": {
        **OF_BOTH,
        **{"runs": 6, "trials": 25, "answers": 80, "grades": 153, "calls": 57, "utterances": 367, "probes": 425},
        # of six conversations the terms and the inventions
        **{"ratings": 6, "profiles": 3, "case_lists": 1, "run_labels": 2, "variants": 1, "judgements": 12},
    },
    "version_0_5_1": {
        **OF_BOTH,
        **{"runs": 8, "trials": 28, "answers": 96, "grades": 198, "calls": 236, "utterances": 418, "probes": 505},
        **{"ratings": 8, "misuses": 8, "profiles": 4, "case_lists": 4, "run_labels": 2, "variants": 1},
        **{"judgements": 284, "replicates": 32, "continuations": 16},
        # of the 112 answers and five reviews, six and one are withdrawn
        **{"reviews": 4, "unblindings": 3},
        **{"case_labels": 8, "plans": 1, "report_fields": 2, "rubrics": 1},
    },
}
"""Store → table → the number of its rows, of which the journals make all."""
RELEASED = {"runs": 2, "trials": 20, "answers": 160, "grades": 228, "utterances": 95}
"""Table → the rows of the imported release, which no journal has."""
STORED: Mapping[str, Mapping[str, int]] = {
    "version_0_5_0": {
        **{table: rows + RELEASED.get(table, 0) for table, rows in JOURNALED["version_0_5_0"].items()},
        **{"judgements": 70, "reviews": 3, "unblindings": 1, "release_files": 4},
        "case_lists": 9,  # with the items that a rule made for a report, which are in no journal
    },
    "version_0_5_1": {
        **{table: rows + RELEASED.get(table, 0) for table, rows in JOURNALED["version_0_5_1"].items()},
        "release_files": 4,
    },
}
"""Store → table → the number of its rows in the database: also the release, and what people wrote before 0.5.1."""

ITEMS = {"version_0_5_0": 9, "version_0_5_1": 17}
"""Store → the number of items in its reviews, which had a table of their own."""

RULES = "reference/bayes · CRAFT-MD"
ACCURACIES = {
    ("human/Ada", "vignette", "frq"): 1 / 2,
    ("openai/gpt-4o · CRAFT-MD", "vignette", "mcq"): 0.0,
    ("openai/gpt-4o · CRAFT-MD", "multi_turn", "frq"): 1 / 2,
    (RULES, "vignette", "mcq"): 1.0,
    (RULES, "vignette", "frq"): 1 / 3,
    (RULES, "multi_turn", "mcq"): 1.0,
    (RULES, "multi_turn", "frq"): 1 / 3,
    (RULES, "single_turn", "mcq"): 2 / 3,
    (RULES, "single_turn", "frq"): 1 / 3,
    (RULES, "summarized", "mcq"): 1.0,
    (RULES, "summarized", "frq"): 1 / 3,
    ("reference/bayes · AutoMedic", "vignette", "mcq"): 1.0,
    ("reference/bayes · AutoMedic", "multi_turn", "mcq"): 1.0,
    ("reference/oracle-direct", "multi_turn", "mcq"): 1.0,
}
"""Of both stores. The reference grader marked the free responses first; those of the model's grading count."""
ONLY_IN: Mapping[str, Mapping[tuple[str, str, str], float]] = {
    "version_0_5_0": {("human/Ada", "vignette", "mcq"): 1.0},
    "version_0_5_1": {
        ("human/Ada", "vignette", "mcq"): 1 / 2,
        (RULES, "closing", "frq"): 1.0,
        ("openai/gpt-4o · CRAFT-MD", "closing", "frq"): 1 / 2,
        ("openai/gpt-4o · AutoMedic", "vignette", "mcq"): 0.0,
        ("openai/gpt-4o · AutoMedic", "multi_turn", "mcq"): 0.0,
    },
}
OF_THE_RELEASE = {
    (model, format_, question): 0.9 if format_ == "multi_turn" else 1.0
    for model in ("gpt_3_5", "mistral_v1_7b")
    for format_ in ("vignette", "multi_turn", "single_turn", "summarized")
    for question in ("mcq", "frq")
}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Mapping[tuple[str, str], Store]:
    """Return (name, "database") and (name, "journals") → a store opened by this version, which no test changes."""
    opened = {}
    for name in NAMES:
        folder = tmp_path_factory.mktemp(name)
        database = unpack_golden(name, folder / "whole")
        rebuilt = folder / "rebuilt" / database.name
        shutil.copytree(journals_of(database), journals_of(rebuilt))
        opened |= {(name, "database"): Store(database), (name, "journals"): Store(rebuilt)}
        fold(opened[name, "journals"])
    return opened


def counts(store: Store, tables: Mapping[str, int]) -> dict[str, int]:
    """Return table → the number of its rows, without the tables that this version dropped."""
    with store.read() as cursor:
        return {
            table: cursor.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0]
            for table in tables
            if table in TABLES
        }


def items_of_reviews(store: Store) -> int:
    with store.read() as cursor:
        ((items,),) = cursor.execute("SELECT coalesce(sum(json_array_length(items)), 0) FROM reviews").fetchall()
    return int(items)


def rows(store: Store, name: str, **options: Any) -> list[dict[str, Any]]:
    return result_of(metrics()[name], MetricRequest(store, Selection()), options).cells(plain=True)


def accuracies(store: Store) -> dict[tuple[str, str, str], float]:
    listed = rows(store, "accuracy")
    # the name of an expert's condition also says which question was asked first
    names = {row["model"]: "human/Ada" if row["model"].startswith("human/Ada") else row["model"] for row in listed}
    return {(names[row["model"]], row["format"], row["question_type"]): row["mean"] for row in listed}


def test_only_removed_kinds_have_no_table() -> None:
    for name in NAMES:
        assert STORED[name].keys() - TABLES.keys() <= FORMER.keys()


@pytest.mark.parametrize("name", NAMES)
def test_the_database_is_migrated_and_loses_nothing(stores: Mapping[tuple[str, str], Store], name: str) -> None:
    store = stores[name, "database"]
    expected = {table: count for table, count in STORED[name].items() if table in TABLES}
    assert counts(store, expected) == expected
    assert items_of_reviews(store) == ITEMS[name]
    with store.read() as cursor:
        sql = "SELECT case_key, text_hash, words_hash FROM cases ORDER BY added_at, rowid"
        assert {key: of for key, *of in cursor.execute(sql).fetchall()} == {
            case.case_key: [case.text_hash, case.words_hash] for case in cases(cursor)
        }
    report = fold(store)
    assert (report.trials, report.grades, report.damaged) == (0, 0, ())


@pytest.mark.parametrize("name", NAMES)
def test_the_journals_alone_make_the_same_rows(stores: Mapping[tuple[str, str], Store], name: str) -> None:
    expected = {table: count for table, count in JOURNALED[name].items() if table in TABLES}
    assert counts(stores[name, "journals"], expected) == expected
    assert items_of_reviews(stores[name, "journals"]) == (ITEMS[name] if "reviews" in expected else 0)


@pytest.mark.parametrize("of", ["database", "journals"])
def test_the_rows_of_former_tables_are_judgements(stores: Mapping[tuple[str, str], Store], of: str) -> None:
    store = stores["version_0_5_1", of]
    with store.read() as cursor:
        tables = {name for (name,) in cursor.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
        verdicts = cursor.execute(
            """SELECT judge, judge_kind, together, repeat, count_if(void), sum(len(calls)), count(*) FROM judgements
               WHERE form = 'rubric:demo' AND subject = 'talk:' || trial_id GROUP BY ALL ORDER BY ALL"""
        ).fetchall()
    assert not tables & FORMER.keys()
    assert verdicts == [("openai/gpt-4o", "model", 1, 1, 10, 40, 40), ("reference/words", "rule", 1, 1, 0, 0, 6)]
    assert sum(number for *_, number in verdicts) == 46


@pytest.mark.parametrize("of", ["database", pytest.param("journals", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", NAMES)
def test_verify_finds_nothing_damaged_and_counts_the_skipped_lines(
    stores: Mapping[tuple[str, str], Store], name: str, of: str
) -> None:
    verified = verify(stores[name, of])
    assert verified.findings == ()
    assert verified.removed == {kind: count for kind, count in LINES[name].items() if kind in SKIPPED}
    expected = STORED if of == "database" else JOURNALED
    assert (verified.trials, verified.calls) == (expected[name]["trials"], expected[name]["calls"])


def test_lines_of_removed_kinds_are_skipped_and_counted_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever kinds this version has removed: completions and labels of runs are removed here, too."""
    name = "version_0_5_1"
    monkeypatch.setitem(FORMER, "completions", Former())
    monkeypatch.setitem(FORMER, "run_labels", Former(people=People("label", "labelled_at")))
    removed = {kind: count for kind, count in LINES[name].items() if kind in SKIPPED | {"completions", "label"}}
    database = unpack_golden(name, tmp_path / "packed")
    store = Store(tmp_path / "rebuilt" / database.name)
    shutil.copytree(journals_of(database), store.journals)
    report = fold(store)
    assert report.damaged == ()
    assert report.removed == removed
    assert report.skipped.count(".") == 1
    for kind, count in removed.items():
        assert f"{count} {kind}" in report.skipped
    monkeypatch.setenv("ANAMNESIS_DB", str(store.path))
    assert main(["verify"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == report.skipped


def test_a_line_of_an_unknown_kind_is_damage(store: Store) -> None:
    lines = {
        "row": '{"type":"row","table":"colours","row":{}}',
        "people": '{"type":"written","line_id":"1","kind":"colour","at":1.0,"what":{}}',
        "other": '{"type":"coloured"}',
    }
    for name, line in lines.items():
        path = store.journals / name / "journal.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text(f"{line}\n")
    assert {damaged.path.parent.name for damaged in fold(store).damaged} == lines.keys()
    assert {problem.where for problem in verify(store).findings if problem.kind == "damaged"} == lines.keys()


@pytest.mark.parametrize(
    ("name", "of"),
    [
        ("version_0_5_0", "database"),
        ("version_0_5_1", "journals"),
        pytest.param("version_0_5_0", "journals", marks=pytest.mark.slow),
        pytest.param("version_0_5_1", "database", marks=pytest.mark.slow),
    ],
)
def test_accuracies_are_those_of_the_old_program(stores: Mapping[tuple[str, str], Store], name: str, of: str) -> None:
    expected = {**ACCURACIES, **ONLY_IN[name]}
    if name == "version_0_5_0":  # one framework alone has doctors of this model, so that its condition needs no name
        expected = {(key[0].replace("gpt-4o · CRAFT-MD", "gpt-4o"), *key[1:]): mean for key, mean in expected.items()}
    released = OF_THE_RELEASE if of == "database" else {}
    assert accuracies(stores[name, of]) == pytest.approx({**expected, **released})


@pytest.mark.parametrize("of", [pytest.param("database", marks=pytest.mark.slow), "journals"])
def test_figures_of_judges_and_people_are_those_of_the_old_program(
    stores: Mapping[tuple[str, str], Store], of: str
) -> None:
    store = stores["version_0_5_1", of]
    scores = {
        row["model"]: (row["score"], row["n_criteria"], row["n_unjudged"]) for row in rows(store, "rubric_scores")
    }
    assert scores == {
        "openai/gpt-4o · CRAFT-MD": (None, 8, 8),  # invented quotations leave less than half of the points judged
        RULES: (pytest.approx(7 / 15), 22, 2),
    }
    assert {row["figure"]: row["n_of_these"] for row in rows(store, "urgency")} == {
        **{"exact": 2, "over-triage": 0, "under-triage": 2, "severe under-triage": 2, "unanswered": 0}
    }
    listed = [row for row in rows(store, "agreement", review="Hearts") if row["question"] == "Complete answers"]
    agreement = {(row["judges"], row["measure"]): row["value"] for row in listed}
    assert {name: agreement["people", name] for name in ("percent agreement", "Fleiss' kappa", "Gwet's AC1")} == {
        "percent agreement": 0.75,  # Ada and Ben agree on three of four conversations
        "Fleiss' kappa": pytest.approx(7 / 15),
        "Gwet's AC1": pytest.approx(9 / 17),
    }
    rater = next(judges for judges, _ in agreement if "[86b4ed]" in judges)  # of the table model_ratings
    assert agreement[rater, "percent agreement"] == 0.75


@pytest.mark.parametrize(
    ("name", "of"), [pytest.param("version_0_5_0", "database", marks=pytest.mark.slow), ("version_0_5_1", "journals")]
)
def test_a_third_person_decides_where_two_differ(stores: Mapping[tuple[str, str], Store], name: str, of: str) -> None:
    listed = rows(stores[name, of], "experts", review="Hearts")
    assert {row["question"]: (row["yes"], row["n"], row["excluded"].get("tied", 0)) for row in listed} == {
        **{"One most likely diagnosis": (3, 4, 0), "Complete medical history": (3, 4, 0)},
        **{"Patient used medical terms": (3, 4, 0), "Answers based on the vignette": (3, 4, 0)},
        **{"Complete answers": (3, 4, 0)},
    }


@pytest.mark.parametrize("of", [pytest.param("database", marks=pytest.mark.slow), "journals"])
def test_a_review_of_criteria_is_one_by_their_rubric(stores: Mapping[tuple[str, str], Store], of: str) -> None:
    store = stores["version_0_5_1", of]
    state = state_of(store, "Criteria")
    assert (state.form.name, len(state.items), state.missing) == ("rubric:demo", 8, 1)  # one tie is open
    listed = rows(store, "agreement", review="Criteria", by="form")
    people = {row["measure"]: (row["value"], row["n"]) for row in listed if row["judges"] == "people"}
    assert people["percent agreement"] == (0.875, 8)
    assert people["Cohen's kappa"] == (pytest.approx(0.6), 8)
    shares = rows(store, "ratings", review="Criteria")
    assert sum(row["share"] * row["n"] for row in shares if row["answer"] == "Met" and row["n"]) == pytest.approx(6)
    assert sum(row["n"] for row in shares if row["answer"] == "Met") == 7
    assert len(rows(store, "ratings", review="Criteria", part="words")) == 16
