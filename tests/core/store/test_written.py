"""What people write survives: delete the database, fold, and every answer, review, list, profile and name is there."""

from __future__ import annotations

import io
import json
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pytest

from core.case import Fact, Profile
from core.cli.app import main
from core.errors import AnamnesisError
from core.journal import RowLine, WrittenLine, append_shared, journal_path, read_lines
from core.measures import agreement, base
from core.measures.base import MetricRequest
from core.measures.experts.adjudication import against_grader, decisions_of, pairs, shares
from core.measures.graders.agreement import corrected_of_review
from core.paths import ROOT
from core.reviews.answering import quotation_of, record
from core.reviews.baseline import baseline_cases
from core.reviews.exchange import export_answers, import_csv
from core.reviews.reviewing import plan_review, unblind
from core.reviews.state import COMMENT, HIGHLIGHT, state_of, states
from core.store import written
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.answers import case_scores
from core.store.queries.fact_sets import facts_saved, save_facts
from core.store.queries.history_items import save_items_of_facts, stored_items
from core.store.queries.profiles import add_profiles, delete_profiles, newest_profiles, profile_row, profile_versions
from core.store.queries.reviews import add_review
from core.store.queries.run_labels import Label, delete_run, label_run, labels
from core.store.review_records import Review, ReviewItem, yes_no_questions
from core.store.rows import row_line
from core.store.stored_table import People, Row
from core.store.tables import KINDS, TABLES
from core.store.upkeep import backup, repair, restore, verify
from core.store.written import journal_of, write
from core.text.facts import AtomicFact
from core.text.profiles import Generated
from tests.core.measures.experts.reviews import MODELS, a_plan, answer_all, store_conversations
from tests.core.store.builders import a_case, keep_lines
from tests.core.store.old import make_older
from tests.support.stores import NAME, copy_of

CASE = a_case(0, profile=None, specialty="Dermatology", vignette="A man with an itch, number 0.")
PLAIN = Generated(
    suitable=True,
    speaker="patient",
    profile=Profile(basic=(Fact(key="chief complaint", value="cough", lay="I cough."),), made_by="Ada"),
    made_by="Ada",
    note="",
)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Two models' conversations on six cases, each with a free response that is graded."""
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "here" / NAME))
    return copy_of(store_conversations, tmp_path / "here")


def from_the_journals(store: Store) -> Store:
    """Delete the database and make it anew from its journals, which are folded twice."""
    store.path.unlink()
    store.path.with_name(f"{store.path.name}.wal").unlink(missing_ok=True)
    made = Store(store.path)
    fold(made)
    with made.write() as connection:
        connection.execute("DELETE FROM journal_positions")
    fold(made)
    return made


def fact(id_: str) -> AtomicFact:
    return AtomicFact(id=id_, key="k", text=f"“{id_}” é", lay="l", told=True, topic="onset")


def judge_conversations(store: Store) -> None:
    """Ada and Ben judge all of 12 conversations and differ on two; Cyd breaks ties; an answer is changed."""
    review = plan_review(store, "Conversations", a_plan(number=12, shared=1))
    answer_all(store, review, "Ada")
    answer_all(store, review, "Ben", but={2: "no", 5: "no"})
    record(store, "Conversations", 7, "Ada", "in_vignette", "no", "I read it again")
    record(store, "Conversations", 1, "Ada", COMMENT, "An odd conversation.")
    marked = [quotation_of(1, "I itch since day 3.", "since day")]
    record(store, "Conversations", 1, "Ada", HIGHLIGHT, words=marked)
    record(store, "Conversations", 2, "Cyd", "medical_terms", "no")
    record(store, "Conversations", 5, "Cyd", "medical_terms", "yes")
    unblind(store, "Conversations", "Ada", "the deadline")


def judge_answers(store: Store) -> None:
    """Ada and Ben judge four free responses each, without seeing the other's; names are shown before Ben is done."""
    plan_review(store, "Answers", a_plan(kind="answers", number=8, shared=0))
    state = state_of(store, "Answers")
    for who, count in (("Ada", 4), ("Ben", 3)):
        for place, item in enumerate(state.items_for(who)[:count]):
            record(store, "Answers", item.number, who, "equivalent", "yes" if place else "no")
    unblind(store, "Answers", "Ada", "the deadline")


def answer_vignettes(store: Store) -> None:
    """Ada answers two of three vignettes whole and one in her own words only."""
    plan = a_plan(kind="baseline", number=3, annotators=("Ada",), shared=0, specialties=("Neurology",))
    state = state_of(store, plan_review(store, "Vignettes", plan).review_id)
    for place, item in enumerate(state.items_for("Ada")):
        case = baseline_cases(store, state.review, "Ada")[item.item]
        wrong = next(choice for choice in case.choices if choice != case.answer)
        record(store, "Vignettes", item.number, "Ada", "frq", case.answer)
        if place < 2:
            record(store, "Vignettes", item.number, "Ada", "mcq", case.answer if place else wrong)


def import_answers(store: Store) -> None:
    import_csv(
        store,
        b"model,case,annotator,question,value,comment\n"
        b"gpt_4,craftmd/case_7,Eve,medical_terms,no,\ngpt_4,craftmd/case_8,Eve,medical_terms,yes,long\n",
    )


def edit_facts(store: Store) -> None:
    for facts in ([fact("a"), fact("b")], [fact("b")]):
        with store.write() as connection:
            save_facts(connection, CASE, facts, "Ada")


def edit_profiles(store: Store) -> None:
    """A model's job makes version 1, Ada edits it, and the model's is used again as version 3."""
    made = PLAIN.model_copy(update={"made_by": "openai/p", "note": "By a model."})
    row = profile_row(CASE, made, 1.0, 1)
    line = row_line(row)
    keep_lines(store, "profiles-0123456789abcdef", [line])
    for word in (PLAIN, made):
        with store.write() as connection:
            add_profiles(connection, [(CASE, word)])


def take_items(store: Store) -> None:
    path = store.path.with_name("mediq.jsonl")
    path.write_text(json.dumps({"context": [CASE.vignette], "facts": ["The patient has an itch."]}))
    save_items_of_facts(store, path, [CASE])


def name_runs(store: Store) -> None:
    assert main(["label", "run0", "--name", "First try", "--tag", "pilot"]) == 0
    assert main(["label", "run0", "--note", "Ten questions."]) == 0
    label_run(store, "run1", Label("To be unnamed", ("x",)))
    label_run(store, "run1", Label())


WRITTEN: dict[str, Callable[[Store], None]] = {
    "answers about conversations": judge_conversations,
    "answers about free responses": judge_answers,
    "answers to vignettes": answer_vignettes,
    "answers from a file": import_answers,
    "facts": edit_facts,
    "profiles": edit_profiles,
    "items": take_items,
    "names": name_runs,
}


def shown(store: Store) -> dict[str, Any]:
    """What is stored of it all, as pages and commands read it: reviews, answers, lists and exports."""
    out = io.StringIO()
    export_answers(store, out)
    result: dict[str, Any] = {"export": out.getvalue(), "items": stored_items(store, CASE)}
    for state in states(store):
        name = state.review.name
        # rows of earlier versions do not name the wording that they answer
        newest = {key: replace(answer, against="") for key, answer in state.newest.items()}
        result[f"{name}, state"] = (state.review, state.items, newest, state.progress, state.missing)
        result[f"{name}, order"] = {who: state.items_for(who) for who in state.review.plan.annotators}
        if state.review.unblinded:
            result[f"{name}, decided"] = decisions_of(state)
    with store.read() as cursor:
        result["facts"] = facts_saved(cursor, CASE)
        result["profiles"] = (profile_versions(cursor, CASE), newest_profiles(cursor))
        result["names"] = labels(cursor)
        result["scores"] = sorted(map(repr, case_scores(cursor, mcq_rule="mcq_strict")))
    return result


def figures(store: Store) -> dict[str, Any]:
    """The figures of the unblinded reviews, which follow from what ``shown`` returns."""
    result: dict[str, Any] = {}
    for state in states(store):
        if state.review.unblinded:
            name, decided = state.review.name, decisions_of(state)
            result[f"{name}, figures"] = (
                shares(decided),
                pairs(decided, state.review.plan.questions),
                repr(list(agreement.report.rows(MetricRequest(store), review=name))),
            )
            result[f"{name}, grader"] = against_grader(store, decided)
            if state.review.plan.kind == "answers":
                result[f"{name}, corrected"] = repr(corrected_of_review(store, state, ["openai/g"]))
    return result


def rows_of_people(store: Store) -> int:
    with store.read() as cursor:
        return sum(
            cursor.execute(f"SELECT count(line_id) FROM {name}").fetchall()[0][0]  # those by rules have no line
            for name, table in TABLES.items()
            if table.people
        )


def test_everything_written_is_there_after_the_database_was_deleted(full: Store) -> None:
    before, computed, count = shown(full), figures(full), rows_of_people(full)
    again = from_the_journals(full)
    assert shown(again) == before
    assert figures(again) == computed
    assert rows_of_people(again) == count
    assert verify(again).findings == ()


@pytest.mark.slow
def test_the_figures_are_those_of_the_answers(full: Store) -> None:
    again = from_the_journals(full)
    decided = decisions_of(state_of(again, "Conversations"))
    # of 12 conversations two are tied: Cyd says no of one and yes of the other
    about_terms = [row for row in shares(decided) if row["question"] == yes_no_questions()["medical_terms"]]
    assert (sum(row["yes"] for row in about_terms), sum(row.n for row in about_terms)) == (11, 12)
    listed = agreement.report.rows(MetricRequest(again), review="Conversations", judges="people")
    asked = [row for row in listed if isinstance(row, base.Row) and row["measure"] == "percent agreement"]
    percent = next(row for row in asked if row["question"] == yes_no_questions()["medical_terms"])
    assert (percent.estimate, percent.n) == (pytest.approx(10 / 12), 12)
    assert {entry.model for entry in decided} == set(MODELS)


def test_a_review_that_is_blinded_stays_so_with_the_same_items_for_the_same_people(store: Store) -> None:
    plan_review(store, "Conversations", a_plan(number=6, annotators=("Ada", "Ben", "Cyd"), seed=4))
    before = state_of(store, "Conversations")
    after = state_of(from_the_journals(store), "Conversations")
    assert after.blinded
    for who in ("Ada", "Ben", "Cyd"):
        assert after.items_for(who) == before.items_for(who)
    assert sum(len(entry.annotators) for entry in after.items) == 6 + 2  # a third of six is seen by two


_WRITER = """
import sys
from pathlib import Path
from core.store.database import Store
from core.store.queries.judgements import add_judgements
from tests.support.answering import an_answer
from core.judging.form import form_named
store, who = Store(Path(sys.argv[1])), sys.argv[2]
for number in range(1, 41):
    item, value = f"release:m:craftmd/case_{number}", "yes" if number % 2 else "no"
    with store.write() as connection:
        required = form_named("conversations").required
        add_judgements(connection, [an_answer(item, who, one, value, review_id="many") for one in required])
"""


@pytest.mark.slow
def test_two_processes_write_two_hundred_answers_each_at_once(store: Store) -> None:
    items = tuple(ReviewItem(f"release:m:craftmd/case_{n}", n, ("Ada", "Ben")) for n in range(1, 41))
    with store.write() as connection:
        add_review(connection, Review("Many", a_plan(number=40, shared=1), items, "many"))
    command = [sys.executable, "-c", _WRITER, str(store.path)]
    writers = [subprocess.Popen([*command, who], cwd=ROOT) for who in ("Ada", "Ben")]
    assert [entry.wait(timeout=300) for entry in writers] == [0, 0]
    for made in (store, from_the_journals(store)):
        state = state_of(made, "Many")
        assert {key: entry.value for key, entry in state.newest.items()} == {
            (item.item, who, question): "yes" if item.number % 2 else "no"
            for item in items
            for who in ("Ada", "Ben")
            for question in state.form.required
        }
        with made.read() as cursor:
            assert cursor.execute("SELECT count(*) FROM judgements").fetchall() == [(400,)]
    assert verify(store).written == 401


def test_what_was_journaled_is_there_although_the_database_could_not_be_written(store: Store) -> None:
    with suppress(ZeroDivisionError), store.write() as connection:
        save_facts(connection, CASE, [fact("a")], "Ada")
        raise ZeroDivisionError  # a kill, a full disk
    with store.read() as cursor:
        assert facts_saved(cursor, CASE) is None
    fold(store)
    with store.read() as cursor:
        saved = facts_saved(cursor, CASE)
    assert saved is not None
    assert saved.facts == (fact("a"),)


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Let no file become longer than so many bytes, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_a_torn_line_and_a_line_of_a_newer_program_lose_nothing(store: Store) -> None:
    edit_facts(store)
    path = journal_of(store.path)
    before, whole = shown(store), path.read_bytes()
    with store.write() as connection, pytest.raises(AnamnesisError) as full, room_for(len(whole) + 40):
        save_facts(connection, CASE, [fact("c")], "Ada")
    assert str(full.value).startswith(f"The journal {path} cannot be written (File too large; ")
    assert str(full.value).endswith("are free there): make room, then save it again.")
    assert path.read_bytes() == whole

    path.write_bytes(whole + whole.splitlines()[-1][:60])
    assert [(entry.kind, entry.where) for entry in verify(store).findings] == [("torn", "people")]
    assert shown(from_the_journals(store)) == before
    label_run(store, "run0", Label("First try"))
    assert path.read_bytes().startswith(whole + b'{"type":"written"')
    assert verify(store).findings == ()

    line = WrittenLine(line_id="x", kind="dream", at=1.0, by="Ada", what={"dream": "of flying"})
    path.write_bytes(path.read_bytes() + orjson.dumps(line.model_dump()) + b"\n")
    (damaged,) = fold(store).damaged
    assert "of the kind 'dream', which this version does not know: update Anamnesis" in damaged.message
    assert main(["verify"]) == 1
    after = shown(store)
    assert after == {**before, "names": after["names"]}


def test_a_new_kind_needs_its_table(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass
    class DreamRow(Row, table="dreams", key="dream_id", people=People("dream", "dreamt_at", "dreamer")):
        dream_id: str
        dreamer: str
        dreamt_at: float

    monkeypatch.setitem(TABLES, "dreams", DreamRow.stored_in)
    monkeypatch.setitem(KINDS, "dream", DreamRow.stored_in)
    with store.write() as connection:
        write(connection, "dream", [{"dream_id": "d", "dreamer": "Ada", "dreamt_at": 5.0}])
    store.path.unlink()
    assert fold(store).written == 1
    with store.read() as cursor:
        assert cursor.execute("SELECT * EXCLUDE (line_id) FROM dreams").fetchall() == [("d", "Ada", 5.0)]
    assert (verify(store).written, verify(store).findings) == (1, ())


@pytest.mark.slow
def test_what_was_taken_back_stays_away(full: Store) -> None:
    store = full
    assert main(["experts", "withdraw", "Answers", "--reason", "planned by mistake"]) == 0
    with store.write() as connection:
        assert delete_profiles(connection, [CASE.case_key]) == 3
    label_run(store, "run0", Label("Again"))
    delete_run(store, "run0")
    before = shown(store)
    assert "Answers, state" not in before
    assert before["profiles"] == ([], {})
    assert "run0" not in before["names"]
    again = from_the_journals(store)
    assert shown(again) == before
    assert verify(again).findings == ()


def everything(store: Store) -> None:
    store_conversations(store)
    count = rows_of_people(store)
    for what, write_some in WRITTEN.items():
        write_some(store)
        count, earlier = rows_of_people(store), count
        assert count > earlier, f"{what} are not stored"


@pytest.fixture
def full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A copy of a store with all that people can write."""
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "full" / NAME))
    return copy_of(everything, tmp_path / "full")


def change(store: Store, *statements: str) -> None:
    with store.write() as connection:
        for statement in statements:
            connection.execute(statement)


def test_verify_counts_and_finds_what_was_changed_and_what_is_missing(
    full: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    before = shown(full)
    count = len([line for _, line in read_lines(journal_of(full.path)) if isinstance(line, WrittenLine)])
    result = verify(full)
    assert (result.written, result.findings) == (count, ())
    changed = "question = 'medical_terms' AND judge = 'Cyd' AND value = 'no'"
    change(
        full,
        f"UPDATE judgements SET value = 'yes' WHERE {changed}",
        "DELETE FROM case_lists WHERE made_at = (SELECT max(made_at) FROM case_lists WHERE kind = 'facts')",
    )
    capsys.readouterr()
    assert main(["verify"]) == 1
    out = capsys.readouterr().out
    assert "missing: people has 1 human entries (case_list by Ada …) that the database lacks" in out
    assert "different: people has 1 human entries (judgement by Cyd …) that differ" in out
    assert main(["verify", "--repair"]) == 0
    assert f"{count:,} human entries" in capsys.readouterr().out
    assert shown(full) == before


@pytest.mark.slow
def test_an_item_of_a_review_that_was_changed_is_found(full: Store) -> None:
    before = shown(full)
    change(full, "UPDATE reviews SET items = replace(items::VARCHAR, 'Ada', 'Eve')")
    result = verify(full)
    assert [(entry.kind, len(entry.lines)) for entry in result.findings] == [("different", 3)]
    repair(full, result)
    assert shown(full) == before


@pytest.mark.slow
def test_what_stands_in_the_database_alone_is_named_and_journaled(full: Store) -> None:
    before, path = shown(full), journal_of(full.path)
    path.unlink()
    result = verify(full)
    assert {entry.kind for entry in result.findings} == {"orphaned"}
    repair(full, result)
    assert verify(full).findings == ()
    assert shown(from_the_journals(full)) == before


@pytest.mark.slow
def test_a_backup_carries_it(full: Store, tmp_path: Path) -> None:
    before, out = shown(full), tmp_path / "kept.tar.gz"
    backup(full, out)
    other = Store(tmp_path / "there" / NAME)
    restore(out, other)
    assert shown(other) == before
    assert verify(other).findings == ()
    assert shown(from_the_journals(other)) == before


_ANSWERS_OF_0_4 = """
    CREATE TABLE annotations AS
    SELECT subject AS item, judge AS annotator, question, value, comment, judged_at AS annotated_at, review_id, reason,
        nullif(replace(replace(quotations::VARCHAR, '"message"', '"turn"'), '"words"', '"text"'), '[]') AS spans
    FROM judgements WHERE judge_kind = 'person' ORDER BY rowid"""


def as_0_4_left_it(store: Store) -> None:
    """Make the database one of before the journal of people: labels and a job's profile alone were journaled."""
    path = journal_of(store.path)
    lines = [line for _, line in read_lines(path) if isinstance(line, WrittenLine)]
    path.unlink()
    edited = [name for name, table in TABLES.items() if table.people]
    dropped = (f"ALTER TABLE {name} DROP COLUMN line_id" for name in edited)
    make_older(store, 13, *dropped, "DROP TABLE withdrawn", _ANSWERS_OF_0_4, "DROP TABLE judgements")
    selected = [RowLine(table="run_labels", row=line.what) for line in lines if line.kind == "label"]
    append_shared(journal_path("labels", store.journals), selected)


def test_a_database_of_before_is_journaled_once_at_its_first_opening(full: Store) -> None:
    before, count = shown(full), rows_of_people(full)
    as_0_4_left_it(full)
    # two answers that are alike to the last digit, as an older program may have saved them
    with duckdb.connect(str(full.path)) as connection:
        connection.execute("INSERT INTO annotations SELECT * FROM annotations WHERE annotator = 'Cyd'")
    opened = shown(full)
    assert opened == {**before, "export": opened["export"]}
    lines = [line for _, line in read_lines(journal_of(full.path)) if isinstance(line, WrittenLine)]
    kinds = Counter(line.kind for line in lines)
    assert "label" not in kinds, "these have a journal"
    assert kinds["profile"] == 2, "so has the one that a job made"
    assert (kinds["review"], kinds["unblinding"], kinds["case_list"]) == (3, 2, 3)
    again = from_the_journals(full)
    assert shown(again) == opened
    assert rows_of_people(again) == count + 2
    assert verify(again).findings == ()


@pytest.mark.slow
def test_an_opening_that_is_killed_after_the_journal_was_written_journals_nothing_twice(
    full: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = shown(full)
    as_0_4_left_it(full)

    def journal_and_die(cursor: duckdb.DuckDBPyConnection, database: Path) -> written.StoredLines:
        written.journal_rows(cursor, database)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("core.store.renewal.journal_rows", journal_and_die)
        with pytest.raises(KeyboardInterrupt), full.read():
            pass
    opened = journal_of(full.path).read_bytes()
    assert shown(full) == before
    assert journal_of(full.path).read_bytes() == opened
    assert shown(from_the_journals(full)) == before


@pytest.mark.slow
def test_a_damaged_journal_of_a_job_keeps_no_database_of_before_closed(full: Store) -> None:
    before = shown(full)
    as_0_4_left_it(full)
    path = journal_path("profiles-0123456789abcdef", full.journals)
    whole = path.read_bytes()
    path.write_bytes(b'{"type":"row","table":"profiles"}\n' + whole)
    assert shown(full) == before
    path.write_bytes(whole)
    again = from_the_journals(full)
    assert shown(again) == before
    assert verify(again).findings == ()
