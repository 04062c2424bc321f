"""Databases of older programs open and are brought up to date; a newer one's is refused."""

from __future__ import annotations

import logging
from dataclasses import astuple

import duckdb
import orjson
import pytest

from core import __version__
from core.asking.parts import Part
from core.errors import AnamnesisError
from core.frameworks.consultation.queries import newest_items
from core.journal import TrialLine, trial_id
from core.store import migrations
from core.store.database import Store
from core.store.fold import fold, keep_lines
from core.store.queries.annotations import Annotation, add_annotations, annotations_of
from core.store.queries.answers import case_scores
from core.store.queries.calls import calls_of
from core.store.queries.cases import case
from core.store.queries.completions import StoredCompletion, completions
from core.store.queries.grades import grade_history, latest_grades
from core.store.queries.releases import ReleaseBatch, document, write_release
from core.store.queries.reviews import add_review, reviews
from core.store.queries.runs import run
from core.store.queries.trials import trial_events
from core.store.queries.variants import JOURNAL, Variant, line_of, variants_of
from core.store.review_records import Review, ReviewPlan
from core.store.tables import insert
from tests.core.store.builders import a_call, a_case, a_header, a_stream, a_trial, write_journal
from tests.core.store.old import as_0_1_1_made_it, made_by_steps

COLUMNS = """
    SELECT table_name, column_name, data_type, is_nullable, column_default FROM duckdb_columns()
    WHERE NOT internal ORDER BY table_name, column_index"""


def applied(store: Store) -> list[tuple[str, str]]:
    with store.read() as cursor:
        return cursor.execute("SELECT name, program FROM migrations ORDER BY name").fetchall()


def columns(store: Store) -> list[tuple[object, ...]]:
    with store.read() as cursor:
        return cursor.execute(COLUMNS).fetchall()


def test_files_are_numbered_without_a_gap() -> None:
    assert [int(name.partition("_")[0]) for name in migrations.MIGRATIONS] == [
        n + 1 for n in range(len(migrations.MIGRATIONS))
    ]


def test_a_new_database_says_which_program_made_it(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    assert applied(store) == [(name, __version__) for name in migrations.MIGRATIONS]
    assert not caplog.records


def test_a_database_of_0_1_1_opens_says_what_was_done_and_keeps_everything(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    as_0_1_1_made_it(store.path)
    with caplog.at_level(logging.WARNING), store.read() as cursor:
        assert trial_events(cursor, "run/1/0") == a_stream()
        assert [(g.verdict, g.at) for g in grade_history(cursor, "run/1/0") if g.rule == "frq"] == [
            ("provider_error", 10.0),
            ("correct", 20.0),
        ]
        assert {g.rule: g.verdict for g in latest_grades(cursor, "run/1/0")}["frq"] == "correct"
        assert calls_of(cursor, "run/1/0")[1].cost_usd == 0.25
        assert case(cursor, "ours/1") == a_case(1)
        held = run(cursor, "run")
        assert held is not None
        assert (held.doctor, held.planned, held.done, held.code_version) == ("openai/a", 4, 1, "0.1.1")
        assert [(s.format, s.correct, s.counted) for s in case_scores(cursor)] == [
            ("multi_turn", 1, 1),
            ("vignette", 1, 1),
        ]
        assert [(a.annotator, a.value, a.spans[0].text) for a in annotations_of(cursor)] == [("Ada", "yes", "lump")]
        assert [items.items for items in newest_items(cursor)] == ['[["Chief complaint","lump"]]']
    assert [record.getMessage() for record in caplog.records] == [
        f"Brought the database {store.path} up to date: {', '.join(list(migrations.MIGRATIONS)[1:])}."
    ]
    assert applied(store) == [(name, __version__) for name in migrations.MIGRATIONS]


def test_a_database_of_0_1_1_takes_in_journals_on(store: Store) -> None:
    as_0_1_1_made_it(store.path)
    second: TrialLine = a_trial(a_stream("run/1/1"), trial_id="run/1/1", trial=1)
    write_journal(store.journals, "run", a_header(cases=[a_case(1), a_case(2)]), a_trial(), second)
    assert fold(store).trials == 1
    with store.read() as cursor:
        held = run(cursor, "run")
    assert held is not None
    assert held.done == 2


def test_calls_of_before_are_given_their_runs_and_judgements_hand_over_theirs(store: Store) -> None:
    """One call of a stored trial, of an unfinished one, of a job and of a trial that is gone; and a judgement's own."""
    as_0_1_1_made_it(store.path)
    unfinished = trial_id("run", "ours/2", 1)
    record = a_call("mine", role="grader", purpose="judge", request={"n": 1}).call
    fields = record.model_dump(mode="json", exclude={"parts", "cached_tokens"})
    job = "judging-0123456789abcdef"
    with duckdb.connect(str(store.path)) as connection:
        for name in (unfinished, job, "gone"):
            connection.execute(
                "INSERT INTO calls BY NAME SELECT * REPLACE (? AS trial_id, ? AS call_id) FROM calls LIMIT 1",
                [name, f"of {name}"],
            )
        connection.execute(
            "INSERT INTO patient_judgements VALUES ('run/1/0', 'j', 'h', '[]', 0, '', ?, 13, .25, 1)",
            [orjson.dumps([fields]).decode()],
        )
    with store.read() as cursor:
        found = dict(cursor.execute("SELECT call_id, run_id FROM calls").fetchall())
        kept = cursor.execute("SELECT calls FROM patient_judgements").fetchall()
        moved = calls_of(cursor, "judging")
    assert {name: found.pop(f"of {name}") for name in (unfinished, job, "gone")} == {
        unfinished: "run",
        job: job,
        "gone": None,
    }
    assert found.pop("mine") == "judging"
    assert set(found.values()) == {"run"}
    assert [orjson.loads(ids) for (ids,) in kept] == [["mine"]]
    assert moved == [record]


@pytest.mark.parametrize("version", [1, 7, 9])
def test_a_database_of_before_has_the_same_tables_in_the_end(store: Store, version: int) -> None:
    new = Store(store.path.with_name("new.duckdb"))
    made_by_steps(store.path, version)
    assert columns(store) == columns(new)
    steps = [f"before_0001/to_{n}" for n in range(version + 1, 10)]
    assert [name for name, _ in applied(store)] == [*migrations.MIGRATIONS, *steps]


def test_a_database_of_a_newer_program_is_refused_in_words(store: Store) -> None:
    with store.write() as connection:
        connection.execute("INSERT INTO migrations VALUES ('0099_colour', 0, '7.1')")
    with pytest.raises(AnamnesisError, match=r"written by a newer Anamnesis \(7\.1; this is"), store.read():
        pass


def test_programs_up_to_0_1_1_find_a_newer_number(store: Store) -> None:
    with store.read() as cursor:
        assert cursor.execute("SELECT max(schema_version) > 9 FROM meta").fetchall() == [(True,)]


def test_a_column_more_is_one_file_more(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with store.write() as connection:
        connection.execute("INSERT INTO scores VALUES ('t', 'm', '1', 'recall', .5, NULL, 0, 'h', NULL)")
    added = {**migrations.MIGRATIONS, "0099_colour": "ALTER TABLE scores ADD COLUMN colour VARCHAR"}
    monkeypatch.setattr(migrations, "MIGRATIONS", added)
    with store.read() as cursor:
        assert cursor.execute("SELECT value, colour FROM scores").fetchall() == [(0.5, None)]
    assert applied(store)[-1][0] == "0099_colour"


def test_a_step_that_fails_leaves_the_database_as_it_was(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    before = applied(store)
    broken = {"0098_colour": "ALTER TABLE scores ADD COLUMN colour VARCHAR", "0099_odd": "ALTER TABLE nothing DROP x"}
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "MIGRATIONS", {**migrations.MIGRATIONS, **broken})
        with pytest.raises(Exception, match="nothing"), store.read():
            pass
    assert applied(store) == before
    assert ("scores", "colour") not in [row[:2] for row in columns(store)]


def test_a_column_more_in_every_table_disturbs_no_reader_and_no_writer(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [name for name in {str(row[0]) for row in columns(store)} if name not in ("migrations", "meta")]
    views = {"newest_grades", "verdicts"}
    script = "".join(f"ALTER TABLE {name} ADD COLUMN colour VARCHAR;" for name in tables if name not in views)
    monkeypatch.setattr(migrations, "MIGRATIONS", {**migrations.MIGRATIONS, "0099_colour": script})
    write_journal(store.journals, "run", a_header(cases=[a_case(1)]), a_trial())
    assert fold(store).trials == 1
    step = Part("user", "Hello", "doctor")
    done = StoredCompletion("ours/1", "h", "m", "p", "a", "b", "c", "", 0.5, "{}", 3, None, 1.0)
    review = Review("First", ReviewPlan(kind="baseline", number=1, annotators=("Ada",)))
    with store.write() as connection:
        add_annotations(connection, [Annotation("talk:run/1/0", "Ada", "in_vignette", "yes")])
        insert(connection, "INSERT INTO completions BY NAME SELECT * FROM incoming", "completions", [astuple(done)])
        add_review(connection, review, [])
        write_release(connection, ReleaseBatch(documents={"notes.txt": ("d", b"words")}))
    keep_lines(store, JOURNAL, [line_of(Variant("run/1/0", "doctor", (step,), "m"))])
    with store.read() as cursor:
        assert trial_events(cursor, "run/1/0") == a_stream()
        assert len(latest_grades(cursor, "run/1/0")) == 3
        assert [a.value for a in annotations_of(cursor)] == ["yes"]
        assert [v.messages for v in variants_of(cursor, "run/1/0")] == [(step,)]
        assert completions(cursor) == [done]
        assert [r.name for r in reviews(cursor)] == ["First"]
        assert document(cursor, "notes.txt") == b"words"
        assert [(s.format, s.correct) for s in case_scores(cursor)] == [("multi_turn", 0), ("vignette", 1)]
