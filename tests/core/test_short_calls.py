"""Short calls: what an earlier call has is not stored again, and every reader gets the whole request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from core.events import CallRecord, Finished, SentPart
from core.interchange.public import PublicNames
from core.journal import JournalWriter, ReplyLine, RowLine, append_shared, journal_path, read_lines
from core.report.bundle_journals import Belonging, job_lines
from core.short_calls import NewestCalls, followed, short_call, whole_call, whole_calls
from core.store.database import Store
from core.store.fold import fold
from core.store.purge import purge_run
from core.store.queries.calls import calls_of
from core.store.queries.scores import parts_of
from core.store.upkeep import verify
from tests.core.store.builders import a_case, a_header, a_trial, write_journal

TRIAL = "run/1/0"


def a_request(call_id: str, *texts: str, role: str = "doctor", purpose: str = "dialogue") -> CallRecord:
    """Return a call whose messages have these texts, and parts that say where each message begins and ends."""
    messages = [{"role": "user", "content": text} for text in texts]
    parts = [SentPart(role="user", part="dialogue", message=n, start=0, end=len(t)) for n, t in enumerate(texts)]
    fields: dict[str, Any] = {"role": role, "purpose": purpose, "response": call_id.upper()}
    request = {"model": "a", "messages": messages, "seed": 7}
    return CallRecord(call_id=call_id, model="openai/a", request=request, parts=tuple(parts), **fields)


CALLS = (
    a_request("d1", "doctor's prompt", "hello"),
    a_request("p1", "patient's prompt", "hello", "D1", role="patient"),
    a_request("d2", "doctor's prompt", "hello", "D1", "P1"),
    a_request("b1", "doctor's prompt", "hello", "D1", "P1", "what do you believe?", purpose="probe"),
    a_request("d3", "doctor's prompt, with one question left", "hello", "D1", "P1", "D2", "P2"),
    a_request("d4", "quite another prompt"),
    a_request("d5", "quite another prompt", "hello"),
)
NEW = {
    "d1": ["doctor's prompt", "hello"],
    "p1": ["patient's prompt", "hello", "D1"],
    "d2": ["D1", "P1"],
    "b1": ["what do you believe?"],
    "d3": ["doctor's prompt, with one question left", "D2", "P2"],
    "d4": ["quite another prompt"],
    "d5": ["hello"],
}


def shortened(calls: tuple[CallRecord, ...]) -> list[CallRecord]:
    newest, short = NewestCalls(), []
    for call in calls:
        earlier = newest.closest(call)
        short.append(short_call(call, earlier) if earlier else call)
        newest.add(call)
    return short


def replies(calls: list[CallRecord], unit: str = TRIAL, run_id: str = "run", trial: str = "") -> list[ReplyLine]:
    of_unit = {"run_id": run_id, "trial_id": trial or unit, "unit": unit, "number": 0}
    return [ReplyLine(**of_unit, key=call.call_id, place=n, call=call) for n, call in enumerate(calls)]


def read(path: Path, start: int = 0, about: tuple[str, ...] = ()) -> list[CallRecord]:
    return [line.call for _, line in read_lines(path, start, about) if isinstance(line, ReplyLine)]


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / "run" / "journal.jsonl"
    with JournalWriter(path) as writer:
        writer.append_all([a_header(cases=[a_case()]), *replies(shortened(CALLS))])
    return path


def test_a_call_has_the_messages_that_no_earlier_call_of_its_role_has() -> None:
    short = shortened(CALLS)
    assert {call.call_id: [m["content"] for m in call.request["messages"]] for call in short} == NEW
    assert [len(call.parts) for call in short] == [len(new) for new in NEW.values()]
    assert [followed(call.request) for call in short] == ["", "", "d1", "d2", "d2", "", "d4"]
    assert short[4].request["follows"]["messages"] == [[1, 4]]
    assert whole_calls(short) == {call.call_id: call for call in CALLS}
    assert whole_calls(reversed(short)) == {call.call_id: call for call in reversed(CALLS)}
    assert orjson.dumps(whole_calls(short)["d3"].request) == orjson.dumps(CALLS[4].request), "in the order of its keys"


def test_whole_calls_share_their_messages_so_that_memory_grows_with_the_text() -> None:
    whole = list(whole_calls(shortened(CALLS)).values())
    assert whole[2].request["messages"][0] is whole[0].request["messages"][0]
    assert whole[3].parts[1] is whole[0].parts[1]


def test_ranges_that_do_not_fit_are_an_error() -> None:
    short = shortened(CALLS)[2]
    for ranges in ([[0, 3]], [[1, 1], [0, 2]], [[9, 9]]):
        follows = {**short.request["follows"], "messages": ranges}
        with pytest.raises(ValueError, match="not in the call that it follows"):
            whole_call(short.model_copy(update={"request": {**short.request, "follows": follows}}), CALLS[0])


def test_a_journal_is_read_from_every_line_and_by_every_filter(journal: Path) -> None:
    ends = [0, *(end for end, _ in read_lines(journal))]
    for number, start in enumerate(ends):
        assert read(journal, start) == list(CALLS[max(0, number - 1) :])
    for call in CALLS:
        assert read(journal, about=(f'"key":"{call.call_id}"',)) == [call]
    assert [call for call in read(journal) if followed(call.request)] == []


def test_a_journal_without_one_of_its_lines_is_read(journal: Path) -> None:
    """A damaged line that somebody took out: its call is lost, and what followed it has its own messages and reply."""
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(line for line in lines if b'"call_id":"d2","role"' not in line))
    left = {call.call_id: call for call in read(journal)}
    own = {call_id for call_id, call in left.items() if followed(call.request)}
    assert own == {"b1", "d3"}
    assert [m["content"] for m in left["b1"].request["messages"]] == NEW["b1"]
    assert (left["b1"].parts, left["b1"].response) == ((), "B1")
    assert [left[name] for name in ("d1", "p1", "d4", "d5")] == [CALLS[n] for n in (0, 1, 5, 6)]


def test_the_database_has_short_requests_and_gives_whole_ones(store: Store) -> None:
    lines = replies(shortened(CALLS))
    write_journal(store.journals, "run", a_header(cases=[a_case()]), *lines[:3])
    fold(store)
    append_shared(journal_path("run", store.journals), [*lines[3:], a_trial([Finished(at=9.0)], trial_id=TRIAL)])
    fold(store)  # from the middle of the conversation
    with store.read() as cursor:
        stored = dict(cursor.execute("SELECT call_id, request FROM calls").fetchall())
        assert {name: [m["content"] for m in orjson.loads(text)["messages"]] for name, text in stored.items()} == NEW
        assert calls_of(cursor, TRIAL) == list(CALLS)
        rows = parts_of(cursor, "calls", [TRIAL])[TRIAL]
    assert [orjson.loads(row["request"]) for row in rows] == [call.request for call in CALLS]
    assert [orjson.loads(row["parts"]) for row in rows] == [[p.model_dump() for p in call.parts] for call in CALLS]


def test_a_purge_leaves_whole_calls_that_followed_a_removed_one(store: Store) -> None:
    """A unit of a job whose row names only its second call: the third one stays, with the messages of the second."""
    write_journal(store.journals, "run", a_header(cases=[a_case()]), a_trial(trial_id=TRIAL))
    write_journal(store.journals, "other", a_header("other", [a_case()]))
    calls = (a_request("j1", "one"), a_request("j2", "one", "two"), a_request("j3", "one", "two", "three"))
    rating: dict[str, Any] = {
        "item": f"answer:{TRIAL}:multi_turn:frq", "form": "f", "question": "q", "model": "openai/j",
        "prompt_hash": "p", "value": "1", "quotations": "[]", "reason": "", "failure": "", "call_ids": ["j2"],
        "rated_at": 5.0,
    }  # fmt: skip
    lines = replies(shortened(calls), "a-hash", "judging", "judging")
    path = journal_path("judging-1", store.journals)
    append_shared(path, [*lines, RowLine(table="model_ratings", row=rating)])
    fold(store)
    assert purge_run(store, "run").lines == 2, "the row and its reply"
    assert read(path) == [calls[0], calls[2]]
    with store.read() as cursor:
        assert calls_of(cursor, "judging") == [calls[0], calls[2]]
    assert not verify(store).findings


def test_a_bundle_has_whole_calls_that_follow_one_that_it_leaves_out(store: Store) -> None:
    calls = (a_request("j1", "one"), a_request("j2", "one", "two"), a_request("j3", "one", "two", "three"))
    label = {"run_id": "run", "calls": '["j2", "j3"]', "name": "", "tags": [], "note": "", "labelled_at": 1.0}
    path = journal_path("job", store.journals)
    append_shared(path, [*replies(shortened(calls), "unit", "job", "job"), RowLine(table="run_labels", row=label)])
    belonging = Belonging(frozenset({"run"}), frozenset(), frozenset(), {}, PublicNames())
    bundled = path.with_name("bundled.jsonl")
    bundled.write_bytes(b"".join(job_lines(path, belonging, frozenset())))
    assert read(bundled) == list(calls[1:])
    assert bundled.read_bytes().count(b'"content":"two"') == 1
