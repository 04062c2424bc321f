"""One review flow for every form: people answer, are tied, settle, and are counted; by keys, as CSV, by command."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from core.cli.app import main
from core.judging.form import CANNOT_JUDGE, Form, form_named
from core.measures.base import MetricRequest
from core.measures.opinions import read_opinions
from core.measures.registry import metrics
from core.reviews.answering import answer_in, record
from core.reviews.drawing import draw
from core.reviews.exchange import import_csv, write_sheet
from core.reviews.reviewing import plan_review, unblind
from core.reviews.rubrics import any_form
from core.reviews.state import ReviewState, decided, state_of
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.judgements import add_judgements, judgements
from core.store.review_records import Candidate, planned
from tests.core.measures.experts.reviews import a_plan, store_conversations
from tests.support.judged_rubric import store_judged
from tests.support.stores import copy_of

RUBRIC = "rubric:demo"
REVIEWS = ("answers", RUBRIC)
"""A form of the program with a third person for ties, and a rubric; ``test_written`` has one of conversations."""
PEOPLE = ("Ada", "Ben")


def fill(store: Store) -> None:
    store_judged(store)
    store_conversations(store)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    filled = copy_of(fill, tmp_path / "filled")
    monkeypatch.setenv("ANAMNESIS_DB", str(filled.path))
    return filled


def plan(store: Store, kind: str, number: int = 4, annotators: Sequence[str] = PEOPLE) -> ReviewState:
    runs = ("run",) if kind == RUBRIC else ("run0", "run1")
    fields = {"kind": kind, "number": number, "annotators": annotators, "shared": 1.0, "runs": runs}
    fields["form"] = any_form(store, kind)
    return state_of(store, plan_review(store, kind, planned(**fields)).review_id)


def answer_open(store: Store, review: str, annotator: str, number: int | None = None) -> None:
    """Answer the open questions of the annotator's items, as the keys of its page do: all, or the first ``number``."""
    state = state_of(store, review)
    waiting = [
        (item, question)
        for item in state.queue(annotator)
        for question in map(partial(state.question, item), state.due(item, annotator))
        if question and not question.optional and state.value(item.item, annotator, question.id) is None
    ]
    answers = [
        # Ben differs on the items 1 and 2
        answer_in(
            state,
            item.number,
            annotator,
            asked.id,
            asked.values[annotator == "Ben" and item.number <= 2],
            seconds=10.0 * item.number,
        )
        for item, asked in waiting[:number]
    ]
    with store.write() as connection:
        add_judgements(connection, [answer for answer in answers if answer])


def settlers(state: ReviewState, question: str) -> dict[int, str]:
    """Return number of an item → who settled its tie."""
    settled = {item.number: state.settlement(item, question) for item in state.items}
    return {number: answer.judge.name for number, answer in sorted(settled.items()) if answer}


def from_journals(store: Store) -> Store:
    store.path.unlink()
    again = Store(store.path)
    fold(again)
    return again


def rows(store: Store, metric: str, **options: object) -> list[dict[str, object]]:
    return [row.cells(plain=True) for row in metrics()[metric].rows(MetricRequest(store), **options)]  # type: ignore[union-attr]


def figures(store: Store) -> dict[str, object]:
    by_people = [
        (answer.subject, answer.against, answer.value, answer.failure)
        for opinions in read_opinions(store, form="rubric:demo").opinions
        for answer in opinions.decided
    ]
    experts = {"answers": rows(store, "experts", review="answers")}
    agreement = rows(store, "agreement", form=RUBRIC, review=RUBRIC)
    times = list(metrics()["ratings"].rows(MetricRequest(store), review=RUBRIC, part="time"))
    return {**experts, RUBRIC: (by_people, agreement), "times": times}


def test_two_people_on_two_forms_are_counted_alike_after_the_database_was_deleted(store: Store) -> None:
    for kind in REVIEWS:
        plan(store, kind)
    for kind in REVIEWS:
        for person in PEOPLE:
            answer_open(store, kind, person, number=2)
    store = from_journals(store)  # in the middle
    for kind in REVIEWS:
        for person in PEOPLE:
            answer_open(store, kind, person)
            assert state_of(store, kind).progress_of(person).done == 4
        state = state_of(store, kind)
        assert [item.number for item in state.open_ties()] == [1, 2]
        for person in PEOPLE:
            assert sorted(item.number for item in state.queue(person)) == [1, 2, 3, 4]
            assert [item.number for item in state.queue(person) if state.is_open(item, person)] == [
                item.number for item in state.items_for(person) if item.number <= 2
            ]
        asked = [question for question in state.form.questions if question.values]
        for question in asked:  # Ben enters what both agreed on for item 1; item 2 stays tied
            record(store, kind, 1, "Ben", question.id, question.values[0])
        settled = state_of(store, kind)
        assert [item.number for item in settled.open_ties()] == [2]
        assert settlers(settled, asked[0].id) == {1: "Ada and Ben"}
        assert settled.value(settled.by_number[1].item, "Ben", asked[0].id) == asked[0].values[1]
        unblind(store, kind, "Ada", "the tie stays")
    before = figures(store)
    about_answers = before["answers"]
    assert isinstance(about_answers, list)
    assert sum(row["n"] for row in about_answers) == 3
    assert sum(row["excluded"].get("tied", 0) for row in about_answers) == 1
    by_people, agreement = before[RUBRIC]  # type: ignore[misc]
    assert [failure for *_, failure in by_people if failure] == ["tied", "tied"]
    assert len(by_people) == 8  # of two criteria each
    percent = next(row for row in agreement if row["measure"] == "percent agreement")
    assert (percent["value"], percent["n"]) == (0.5, 4)  # of what each of them answered alone
    assert [(row["annotator"], row["items"], row["median_minutes"]) for row in before["times"]][:2] == [  # type: ignore[attr-defined]
        ("Ada", 4, pytest.approx(25 / 60, abs=0.01)),
        ("Ben", 4, pytest.approx(25 / 60, abs=0.01)),
    ]
    again = from_journals(store)
    assert figures(again) == before


def test_a_sheet_is_filled_in_and_imported_for_every_form(store: Store) -> None:
    for kind in (*REVIEWS, "preference", "case_quality"):
        state = plan(store, kind, number=2)
        out = io.StringIO()
        count = write_sheet(store, kind, "Ada", out)
        listed = list(csv.DictReader(io.StringIO(out.getvalue())))
        assert len(listed) == count == 2 * len(state.form.questions)
        assert all(row["shown"] and "secret" not in row["shown"] for row in listed)
        required = [row for row in listed if row["question"] in state.form.required]
        for row in required:
            row["value"] = row["answers"].split(" | ")[0] or "in words"
            row["comment"] = "as read"
        file = io.StringIO()
        writer = csv.DictWriter(file, listed[0].keys())
        writer.writeheader()
        writer.writerows(listed)
        result = import_csv(store, file.getvalue().encode())
        assert (result.added, result.rejected) == (len(required), ())
        assert import_csv(store, file.getvalue().encode()).unchanged == len(required)
        after = state_of(store, kind)
        assert after.progress_of("Ada").done == 2
        assert after.missing == len(required)  # Ben's
        assert {answer.comment for answer in after.newest.values()} == {"as read"}


def test_rows_of_a_review_that_its_annotators_could_not_have_given_are_rejected(store: Store) -> None:
    state = plan(store, RUBRIC, number=1)
    item = state.items[0].item
    lines = (
        f"{RUBRIC},item 1,Ada,fever,met,",
        f"{RUBRIC},1,Ben,fever,perhaps,",
        f"{RUBRIC},{item},Cyd,fever,met,",  # nothing is tied
        f"{RUBRIC},2,Ben,fever,met,",
        f"{RUBRIC},1,Ada,fever,not met,",  # a change without a reason
        "other,1,Ada,fever,met,",
        f"{RUBRIC},1,Ben,fever,not met,",
        f"{RUBRIC},1,Ada,highlight,met,",  # words are marked on the page
    )
    content = "\n".join(("review,item,annotator,question,value,reason", *lines)).encode()
    result = import_csv(store, content)
    assert (result.added, [line for line, _ in result.rejected]) == (2, [3, 4, 5, 6, 7, 9])
    assert [item.number for item in state_of(store, RUBRIC).open_ties()] == [1]
    again = "review,item,annotator,question,value\nrubric:demo,1,Ada,fever,met\nrubric:demo,1,Ben,fever,not met\n"
    assert import_csv(store, again.encode())[:2] == (0, 2)  # the same sheets again settle nothing
    assert [item.number for item in state_of(store, RUBRIC).open_ties()] == [1]
    agreed = b"review,item,annotator,question,value\nrubric:demo,1,Ben,fever,met\n"
    assert import_csv(store, agreed).added == 1
    assert state_of(store, RUBRIC).open_ties() == []


def test_answers_outside_reviews_are_imported_for_every_form(store: Store) -> None:
    items = {
        "talk:run/1": ("medical_terms", "No", "no"),
        "answer:t00:multi_turn:frq": ("equivalent", "cannot judge", CANNOT_JUDGE),
        "pair:t00|t10": ("better", "first", "first"),
        "case:ours/1": ("diagnosis", "nothing", ""),
    }
    content = "item,annotator,question,value\n" + "\n".join(
        f"{item},Ada,{question},{value}" for item, (question, value, *_) in items.items()
    )
    result = import_csv(store, content.encode())
    assert [line for line, _ in result.rejected] == [5]
    with store.read() as cursor:
        stored = {answer.subject: answer for answer in judgements(cursor, review_id="imported")}
    assert {item: answer.value for item, answer in stored.items()} == {
        item: value for item, (*_, value) in items.items() if value
    }
    assert all(form_named(answer.form).question(answer.question) for answer in stored.values())


def test_a_review_by_a_rubric_is_planned_answered_and_ended_by_commands(
    store: Store, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    people = ["--annotators", "Ada,Ben", "--number", "2", "--run", "run", "--shared", "1"]
    assert main(["experts", "plan", "By hand", "--kind", "rubric:none", *people]) == 2
    assert "demo" in capsys.readouterr().err
    assert main(["experts", "plan", "By hand", "--kind", RUBRIC, *people]) == 0
    assert "both settle it together" in capsys.readouterr().out
    for person, value in (("Ada", "met"), ("Ben", "not met")):
        for criterion, said in (("fever", value), ("cough", "met")):
            assert main(["experts", "answer", "By hand", "1", criterion, said, "--annotator", person]) == 0
    capsys.readouterr()
    assert main(["experts", "list", "--format", "csv"]) == 0
    listed = {row["annotator"]: row for row in csv.DictReader(io.StringIO(capsys.readouterr().out))}
    assert [listed[person]["ties_waiting"] for person in PEOPLE] == ["1", "1"]
    assert main(["experts", "answer", "By hand", "1", "fever", "met", "--annotator", "Ben"]) == 0  # agreed
    assert main(["experts", "sheet", "By hand", "--annotator", "Ben", "--out", str(tmp_path / "ben.csv")]) == 0
    left = [(row["item"], row["question"]) for row in csv.DictReader((tmp_path / "ben.csv").open())]
    assert sorted(left) == [("2", "cough"), ("2", "fever")]
    assert main(["experts", "unblind", "By hand", "--by", "Ada"]) == 2
    assert main(["experts", "unblind", "By hand", "--by", "Ada", "--reason", "the deadline"]) == 0
    state = state_of(store, "By hand")
    (item,) = [i for i in state.judged(state.form.questions[0]) if i.answers]
    assert (item.answers, item.settled) == ({"Ada": "met", "Ben": "not met"}, "met")
    assert item.decided == ("met", "")


def test_what_several_answers_become(subtests: pytest.Subtests) -> None:
    question = {"id": "q", "title": "Q", "wording": "Q?"}

    def form(decision: str, reviewers: int = 2) -> Form:
        fields = {"name": "f", "title": "F", "about": "case", "questions": [question]}
        return Form.model_validate({**fields, "decision": decision, "reviewers": reviewers})

    third, majority, mean = form("third"), form("majority", 3), form("mean")
    table = (
        (third, ("yes", "yes"), None, ("yes", "")),
        (third, ("yes", "no"), None, (None, "tied")),
        (third, ("yes", "no"), "no", ("no", "")),
        (third, ("yes", "no"), CANNOT_JUDGE, (None, "tied")),
        (third, ("yes", CANNOT_JUDGE), None, ("yes", "")),
        (third, (CANNOT_JUDGE, CANNOT_JUDGE), None, (None, "cannot be judged")),
        (third, (), None, (None, "unanswered")),
        (majority, ("yes", "no", "no"), None, ("no", "")),
        (majority, ("yes", "no", CANNOT_JUDGE), None, (None, "tied")),
        (majority, ("yes", "no"), "yes", ("yes", "")),
        (mean, ("1", "2"), None, (None, "tied")),
    )
    for asked, answers, settlement, expected in table:
        with subtests.test(decision=asked.decision, answers=answers, settlement=settlement):
            assert decided(asked, answers, settlement) == expected


def test_who_settled_a_tie_first_has_settled_it(store: Store) -> None:
    plan(store, "answers", number=2)
    for person, value in (("Ada", "yes"), ("Ben", "no")):
        for number in (1, 2):
            record(store, "answers", number, person, "equivalent", value)
    record(store, "answers", 1, "Ada", "equivalent", "yes")  # her own answer again, now for both
    record(store, "answers", 2, "Cyd", "equivalent", "no")
    state = state_of(store, "answers")
    assert settlers(state, "equivalent") == {1: "Ada and Ben", 2: "Cyd"}
    assert (state.missing, state.ties_for("Dan")) == (0, [])
    assert [progress.annotator for progress in state.progress] == ["Ada", "Ben", "Cyd"]
    with pytest.raises(Exception, match="Cyd has settled"):
        record(store, "answers", 2, "Ben", "equivalent", "yes")
    with pytest.raises(Exception, match="give a reason"):
        record(store, "answers", 1, "Ben", "equivalent", "no")
    record(store, "answers", 1, "Ben", "equivalent", "no", "we read it again")
    state = state_of(store, "answers")
    assert state.judged(state.form.questions[0])[0].settled == "no"


def test_a_question_about_some_cases_is_asked_only_there(store: Store) -> None:
    folder = store.path.parent / "forms"
    folder.mkdir()
    (folder / "by_case.yaml").write_text(
        "title: By case\nabout: conversation\nquestions:\n"
        "  - {id: all, title: All, wording: Is it good?}\n"
        "  - {id: one, title: One, wording: Is it right for this case?, cases: [ours/1]}\n"
    )
    state = plan(store, "by_case", number=12)
    asked = {item.item[-1]: tuple(q.id for q in state.asked(item)) for item in state.items}
    assert asked == {**dict.fromkeys("02345", ("all",)), "1": ("all", "one")}
    assert state.missing == 2 * (12 + 2)
    assert {item.case for item in state.judged(state.form.questions[1])} == {"ours/1"}


def test_no_item_is_drawn_twice() -> None:
    pool = [Candidate(f"talk:{n % 3}", "m", f"ours/{n % 3}", "", "") for n in range(9)]
    items = draw(pool, a_plan(number=3))
    assert sorted(item.item for item in items) == ["talk:0", "talk:1", "talk:2"]
