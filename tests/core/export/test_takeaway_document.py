"""The contents of a document: the stored conversation, the counting grades, and its provenance."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from core.errors import UsageError
from core.events import COUNTED, Event, Token
from core.export import reading
from core.export.document import document_of, document_of_events
from core.export.forms import FORMS, file_name, to_json
from core.export.page import to_html, to_markdown
from core.export.plot import plot_of
from core.frameworks.settings import without_credentials
from core.store.database import Store
from core.store.fold import fold
from tests.core.export.conversations import fill, read_back
from tests.core.store.builders import (
    Answered,
    Finished,
    Graded,
    Probed,
    Started,
    Summarised,
    Utterance,
    a_call,
    a_case,
    a_header,
    a_stream,
    a_trial,
    graded,
    grades,
    write_journal,
)

TEXT_FORMS = ("html", "md", "json")


def facts(*trial_ids: str) -> dict[str, tuple[str, ...]]:
    return {fact.name: fact.values for fact in reading.provenance(document_of(trial_ids))}


def test_a_stored_conversation_comes_with_run_case_and_events(store: Store) -> None:
    (conversation,) = document_of(["run/1/0"]).conversations
    assert conversation.events == tuple(a_stream())
    assert conversation.case == a_case(1)
    assert (conversation.doctor, conversation.trial, conversation.seed) == ("openai/a", 0, 7)
    by_name = facts("run/1/0")
    assert by_name["Patient"] == ("openai/p",)
    assert by_name["Prompt hash"] == ("h",)
    assert by_name["Limit of messages"] == ("30 messages",)
    assert by_name["Seed of the run"] == ("20",)
    assert by_name["When"] == ("1970-01-01 00:00 UTC",)


def test_a_conversation_that_is_only_in_the_journal_can_be_exported(store: Store) -> None:
    trial = a_trial(a_stream("late/1/0"), trial_id="late/1/0", run_id="late")
    write_journal(store.journals, "late", a_header("late", cases=[a_case(1)], doctor="openai/late"), trial)
    assert document_of(["late/1/0"], store).conversations[0].doctor == "openai/late"


def test_the_newest_grade_counts(store: Store) -> None:
    write_journal(store.journals, "run", grades("run/1/0", graded("correct", at=99.0, extracted="atopic eczema")))
    fold(store)
    (free,) = [row for row in reading.arms(document_of(["run/1/0"]).conversations) if "Free" in row.name]
    assert [grade.verdict for grade in free.cells[0].grades] == ["correct"]
    assert "atopic eczema" in FORMS["md"].render(document_of(["run/1/0"])).decode()


@pytest.mark.slow
def test_the_case_is_that_of_the_run(store: Store) -> None:
    changed = a_case(1, vignette="It was rewritten since.")
    write_journal(store.journals, "later", a_header("later", [changed]), a_trial(trial_id="later/1/0", run_id="later"))
    fold(store)
    first, later = document_of(["run/1/0", "later/1/0"]).conversations
    assert first.case.vignette == "Vignette 1."
    assert later.case.vignette == "It was rewritten since."


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ids", "sentence"),
    [
        ([], "1 to 4 conversations, not 0"),
        (["a", "b", "c", "d", "e"], "1 to 4 conversations, not 5"),
        (["run/1/0", "run/1/0"], "given twice"),
        (["run/1/0", "run/9/9"], "no conversation 'run/9/9'"),
    ],
)
def test_impossible_documents_are_refused(store: Store, ids: list[str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        document_of(ids)


def test_a_fork_is_shown_next_to_its_parent_message_by_message(store: Store) -> None:
    conversations = document_of(["run/1/0", "run/1/1"]).conversations
    rows = reading.rows(conversations)
    assert [row.same for row in rows] == [True, False, True]
    assert [cell.text for cell in rows[1].cells] == ["A lump on my NECK.", "It began on Monday."]
    assert reading.branch(conversations[1]) == "run/1/0 at message 2: patient’s words"
    assert [f.name for f in reading.provenance(document_of(["run/1/0", "run/1/1"])) if f.differs] == [
        "Trial",
        "Seed of the trial",
    ]


def test_a_shorter_conversation_leaves_its_side_empty() -> None:
    stream = a_stream()
    longer = document_of_events(a_case(), stream).conversations[0]
    shorter = document_of_events(a_case(), stream[:2]).conversations[0]
    assert [cell is None for cell in reading.rows([shorter, longer])[2].cells] == [True, False]


def test_a_running_conversation_is_exported_up_to_its_last_message() -> None:
    token = Token(role="doctor", purpose="dialogue", text="Sin")
    so_far: list[Event] = [*a_stream()[:6], token]
    document = document_of_events(a_case(), so_far)
    assert token not in document.conversations[0].events
    assert document.title == "1, openai/a, trial 1"  # the model that was called as doctor
    for form in TEXT_FORMS[:2]:
        assert "It was still running when this document was made." in FORMS[form].render(document).decode()


def test_of_a_running_conversation_the_last_grade_of_each_rule_counts() -> None:
    events = [*a_stream(), graded("multiple"), graded("correct")]
    (free,) = [row for row in reading.arms(document_of_events(a_case(), events).conversations) if "Free" in row.name]
    assert [grade.verdict for grade in free.cells[0].grades] == ["correct"]


def test_tokens_cost_and_time_are_added_by_role() -> None:
    failed = a_call("c3", error="timeout: too slow", cost_usd=None, prompt_tokens=0, completion_tokens=0)
    probe = a_call("c4", purpose="probe", cost_usd=1.0)
    use = {u.role: u for u in reading.use(document_of_events(a_case(), [*a_stream(), failed, probe]).conversations[0])}
    doctor = use["Doctor"]
    assert (doctor.calls, doctor.failed, doctor.prompt_tokens, doctor.completion_tokens) == (2, 1, 10, 3)
    assert (doctor.seconds, doctor.cost_usd) == (1.0, 0.25)
    assert use["Patient"].cost_usd is None  # its price is not known
    assert use["Doctor, probes of belief"].cost_usd == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("form", ["html", "md"])
def test_a_provider_failure_is_shown(store: Store, form: str) -> None:
    text = FORMS[form].render(document_of(["run/1/0"])).decode()
    assert "Grader (Multi-turn · Free response) failed" in text
    assert "too slow" in text
    assert "Provider error, excluded" in text
    assert "not counted as wrong" in text
    assert "provider_error" not in COUNTED


@pytest.mark.parametrize("form", TEXT_FORMS)
def test_documents_contain_no_credentials_and_no_local_paths(store: Store, form: str, tmp_path: Path) -> None:
    address = "http://anna:pa55@models.local:8000/v1?api-key=s3cret#frag"
    other = Store(tmp_path / "other.duckdb")
    fill(other, settings={"base_url": address}, prompt_pack="/home/anna/packs/mine")
    text = FORMS[form].render(document_of(["run/1/0"], other)).decode()
    assert "http://models.local:8000/v1" in text.replace("\u200b", "")
    assert "mine" in text
    for secret in ("anna", "pa55", "s3cret", "frag"):
        assert secret not in text


def test_an_address_keeps_host_port_and_path_only() -> None:
    assert without_credentials("https://u:p@h.example:1/v1?k=1#f") == "https://h.example:1/v1"
    assert without_credentials("http://127.0.0.1:8000/v1") == "http://127.0.0.1:8000/v1"
    assert without_credentials("http://u:p@[broken/v1") == "unreadable address"


def test_belief_is_drawn_from_0_to_1_including_the_right_answer() -> None:
    many = tuple((f"Disease {n}", 0.5) for n in range(9))
    probes = [Probed(turn=1, differential=(*many, ("eczema", 0.0))), Probed(turn=3, differential=(("eczema", 1.0),))]
    plot = plot_of(probes, a_case())
    assert len(plot.lines) == 6
    (right,) = [line for line in plot.lines if line.right]
    assert (right.name, right.last, plot.lines[0]) == ("eczema", 1.0, right)
    # 0 is on the bottom line, 1 ten units below the upper edge of the drawing
    assert right.points == (("44.0", "210.0"), ("628.0", "10.0"))
    assert [label for _, label in plot.across] == ["2", "4"]  # messages are counted from 1
    assert plot_of([], a_case()) is None


def test_file_names_are_safe() -> None:
    assert file_name(["run/1/0", "../x y"], "html") == "anamnesis-run-1-0-beside-x-y.html"
    assert file_name(["…"], "md") == "anamnesis-conversation.md"


def test_a_trial_without_a_conversation_says_so() -> None:
    events = [event for event in a_stream() if not isinstance(event, Utterance) and event.kind != "ended"]
    assert reading.ending(document_of_events(a_case(), events).conversations[0]) == "This trial has no conversation."
    broken = [event for event in events if event.kind != "finished"]
    assert reading.ending(document_of_events(a_case(), broken).conversations[0]) == "The trial failed."


def test_reasoning_is_labelled_and_separate_in_every_form() -> None:
    calls = {
        "c1": ("doctor", "dialogue", "Asked to rule out <b>gout</b>."),
        "c2": ("doctor", "answer", "It must be B."),
        "c3": ("grader", "extract", "B is a name."),
        "c4": ("summariser", "summarise", "Shorten it."),
    }
    events = [
        Started(trial_id="t", case_key="ours/1", trial=0, seed=1),
        *(a_call(i, role=role, purpose=purpose, reasoning=thought) for i, (role, purpose, thought) in calls.items()),
        Utterance(turn=0, role="doctor", text="Since when?", call_id="c1"),
        Utterance(turn=1, role="patient", text="Monday."),
        Summarised(text="It began on Monday.", call_id="c4"),
        Answered(format="vignette", question_type="frq", response="Gout", call_id="c2"),
        Graded(
            format="vignette",
            question_type="frq",
            grader="g",
            rule="frq",
            extracted="Gout",
            verdict="correct",
            call_ids=("c3",),
        ),
        Finished(),
    ]
    document = document_of_events(a_case(), events)
    page, text, data = to_html(document).decode(), to_markdown(document).decode(), json.loads(to_json(document))
    folded = re.findall(r"<details class=\"thought\"><summary>(.*?)</summary><p[^>]*>(.*?)</p></details>", page)
    assert sorted(folded) == [
        ("Reasoning of the doctor, which was not said", "Asked to rule out &lt;b&gt;gout&lt;/b&gt;."),
        ("Reasoning of the doctor, which was not said", "It must be B."),
        ("Reasoning of the grader, which was not said", "B is a name."),
        ("Reasoning of the summariser, which was not said", "Shorten it."),
    ]
    assert page.count("It must be B.") == text.count("It must be B.") == 1
    labels = re.findall(r"Reasoning of the (\w+), which was not said:\n\n> (.*)", text)
    assert sorted(labels) == [
        ("doctor", "Asked to rule out &lt;b&gt;gout&lt;/b&gt;."),
        ("doctor", "It must be B."),
        ("grader", "B is a name."),
        ("summariser", "Shorten it."),
    ]
    reasoning = [e["call"]["reasoning"] for e in data["conversations"][0]["events"] if e["kind"] == "called"]
    assert reasoning == [thought for *_, thought in calls.values()]
    assert read_back(to_json(document)) == document


def test_an_inherited_message_of_a_branch_is_equal() -> None:
    message = Utterance(turn=0, role="doctor", text="Since when?", call_id="c1")
    parent = [
        Started(trial_id="a", case_key="ours/1", trial=0, seed=1),
        a_call("c1", reasoning="Begin with time."),
        message,
    ]
    branch = [Started(trial_id="b", case_key="ours/1", trial=1, seed=1), message.model_copy(update={"call_id": None})]
    conversations = [document_of_events(a_case(), events).conversations[0] for events in (parent, branch)]
    (row,) = reading.rows(conversations)
    assert row.same
    assert [cell.thought for cell in row.cells if cell] == ["Begin with time."] * 2
