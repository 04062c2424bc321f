"""Logs of other programs as conversations: who speaks, what is no verdict, and files that nobody should trust.

``files/mock_consultation.eval`` was written by inspect_ai 0.3.285: two cases in two epochs, a doctor without a model
(``mockllm``), messages stored as attachments, a picture, reasoning, a score of each kind, and Zstandard compression.
"""

from __future__ import annotations

import json
import re
import struct
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from core.cli.app import main
from core.datasets.archive import ArchiveLimits, opened
from core.errors import AnamnesisError
from core.events import IMPORTED_SCORE, Answered, Assessed, Ended, Event, Failed, Finished, Utterance
from core.interchange import inspect_reading
from core.interchange.inspect_import import import_log
from core.journal import OF_JOBS
from core.measures.accuracy import accuracy
from core.paths import ROOT
from core.reviews.reviewing import plan_review
from core.reviews.state import states
from core.store.database import Store
from core.store.queries.cases import cases
from core.store.queries.run_labels import delete_run
from core.store.queries.runs import campaign_ids, run_record
from core.store.queries.trials import conversations, count_conversations, trial_events
from core.store.review_records import planned
from core.store.selection import Selection
from core.store.upkeep import verify
from core.store.written import PEOPLE
from tests.core.interchange.logged_study import thoughts

ARCHIVE = Path(__file__).parent / "files" / "mock_consultation.eval"
LIMITS = ArchiveLimits()


def members(path: Path = ARCHIVE) -> dict[str, Any]:
    """Return the files of an archive by name, as JSON."""
    with opened(path, lambda member: True) as folder:
        files = {str(file.relative_to(folder)): file for file in folder.rglob("*.json")}
        return {name: json.loads(file.read_text(encoding="utf-8")) for name, file in files.items()}


def as_json(folder: Path, change: Callable[[dict[str, Any]], object] = lambda log: None) -> Path:
    """Write the log as one JSON file, as Inspect does, with a change."""
    content = members()
    samples = [sample for name, sample in sorted(content.items()) if name.startswith("samples/")]
    log = {**content["header.json"], "samples": samples}
    change(log)
    path = folder / "log.json"
    path.write_text(json.dumps(log), encoding="utf-8")
    return path


def events_by_trial(store: Store, run_id: str) -> dict[tuple[str, int], list[Event]]:
    with store.read() as cursor:
        stored = conversations(cursor, Selection(runs=[run_id]))
        return {
            (conversation.case_key, conversation.trial): trial_events(cursor, conversation.trial_id)
            for conversation in stored
        }


@pytest.fixture(params=["eval", "json"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return ARCHIVE if request.param == "eval" else as_json(tmp_path)


@pytest.mark.slow
def test_users_are_patients_the_model_is_the_doctor_and_everything_is_shown(store: Store, log: Path) -> None:
    imported = import_log(store, log, LIMITS)
    assert (imported.doctor, imported.conversations, imported.own, imported.new) == ("mockllm/model", 4, False, True)
    conversations = events_by_trial(store, imported.run_id)
    keys = {key for key, _ in conversations}
    assert len(keys) == 2
    assert {number for _, number in conversations} == {0, 1}
    cough = next(events for events in conversations.values() if any("I cough" in str(e) for e in events))
    messages = [event for event in cough if isinstance(event, Utterance)]
    assert [m.role for m in messages] == [
        "system", "patient", "doctor", "patient", "doctor", "patient", "doctor",
    ]  # fmt: skip
    assert messages[3].text == "Since Monday."
    # stored once in the log, and referred to by its hash
    assert messages[5].text.startswith("No fever. long long")
    assert thoughts(cough) == ["I think so"] * 3
    rash = next(events for events in conversations.values() if any("Look at this rash" in str(e) for e in events))
    (first,) = [e.text for e in rash if isinstance(e, Utterance) and e.turn == 1]
    assert first == "Look at this rash\n[image]"
    assert [(e.reason, e.doctor_turns) for e in rash if isinstance(e, Ended)] == [("not_recorded", 3)]
    assert not verify(store).findings


@pytest.mark.slow
def test_the_target_is_the_answer_and_further_targets_are_synonyms(store: Store, log: Path) -> None:
    import_log(store, log, LIMITS)
    with store.read() as cursor:
        stored = {case.answer: case for case in cases(cursor)}
    assert set(stored) == {"influenza", "eczema"}
    assert stored["eczema"].synonyms == ("dermatitis",)
    assert stored["influenza"].specialty == "Infectious Disease"
    assert stored["influenza"].vignette.startswith("I cough. Really.")


@pytest.mark.slow
def test_scores_of_another_program_are_remarks_and_the_answers_wait_for_a_grader(store: Store, log: Path) -> None:
    imported = import_log(store, log, LIMITS)
    conversations = events_by_trial(store, imported.run_id)
    remarks = sorted(
        (e.values, e.words) for events in conversations.values() for e in events if isinstance(e, Assessed)
    )  # fmt: skip
    assert {values for values, _ in remarks} == {
        ("odd", "C"), ("odd", "I"), ("odd", "unscored"), ("parts.a", "1.0"), ("parts.b", "0.5"),
    }  # fmt: skip
    assert imported.scores == len(remarks) == 12
    assert (("odd", "unscored"), "no verdict") in remarks
    with store.read() as cursor:
        assert cursor.execute("SELECT count(*) FROM grades").fetchall() == [(0,)]
        assert campaign_ids(cursor) == [imported.run_id]
    (row,) = accuracy(store)
    assert (row.estimate, row.excluded, row.label["format"]) == (None, {"ungraded": 4}, "closing")


@pytest.mark.slow
def test_imported_answers_can_be_graded_here(store: Store, log: Path, monkeypatch, capsys) -> None:
    imported = import_log(store, log, LIMITS)
    monkeypatch.setenv("ANAMNESIS_DB", str(store.path))
    assert main(["job", "regrade", "--run", imported.run_id, "--grader", "reference/names"]) == 0
    capsys.readouterr()
    (row,) = accuracy(store)
    # the doctor without a model names no diagnosis
    assert (row.estimate, row.n, row.more["n_trials"]) == (0.0, 2, 4)


def test_imported_conversations_are_found_by_words_and_reviewed_by_people(store: Store) -> None:
    imported = import_log(store, ARCHIVE, LIMITS)
    with store.read() as cursor:
        assert count_conversations(cursor, Selection(text="since monday", speaker="patient")) == 4
        assert count_conversations(cursor, Selection(text="you are a doctor", speaker="doctor")) == 0
    fields = {"annotators": ("Ada",), "number": 4, "shared": 0.0, "seed": 1, "format": "closing"}
    for kind in ("conversations", "answers"):
        plan_review(store, kind, planned(kind=kind, runs=(imported.run_id,), **fields))
    assert {len(state.items) for state in states(store)} == {4}


@pytest.mark.slow
def test_a_run_cannot_be_resumed_and_can_be_deleted_and_imported_again(
    store: Store, log: Path, monkeypatch, capsys
) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(store.path))
    run_id = import_log(store, log, LIMITS).run_id
    assert main(["resume", run_id]) == 2
    assert "came with a log" in capsys.readouterr().err
    assert not import_log(store, log, LIMITS).new
    delete_run(store, run_id)
    again = import_log(store, log, LIMITS)
    assert (again.new, again.run_id) == (True, f"{run_id}-2")
    with store.read() as cursor:
        assert run_record(cursor, run_id) is None


def test_an_error_of_the_log_is_a_failure_and_no_wrong_answer(store: Store, tmp_path: Path) -> None:
    def fail(log: dict[str, Any]) -> None:
        log["status"] = "error"
        log["samples"][0] |= {"error": {"message": "no answer from the server", "traceback": "", "traceback_ansi": ""}}
        log["samples"][1] |= {"limit": {"type": "message", "limit": 6.0}}

    imported = import_log(store, as_json(tmp_path, fail), LIMITS)
    assert imported.status == "error"
    events = [event for conversation in events_by_trial(store, imported.run_id).values() for event in conversation]
    assert [event.message for event in events if isinstance(event, Failed)] == ["no answer from the server"]
    assert len([event for event in events if isinstance(event, Finished)]) == 3
    assert sorted(event.reason for event in events if isinstance(event, Ended)) == [*["not_recorded"] * 3, "turn_cap"]
    (row,) = accuracy(store)
    assert row.excluded == {"provider_error": 1, "ungraded": 3}


def test_tools_are_shown_and_choices_give_the_answer_its_words(store: Store, tmp_path: Path) -> None:
    def use_tools(log: dict[str, Any]) -> None:
        for sample in log["samples"]:
            sample |= {"choices": ["flu", "asthma"], "target": "B"}
            call = {"id": "1", "function": "order", "arguments": {"test": "X-ray"}, "type": "function"}
            sample["messages"][2] = {"role": "assistant", "content": "", "tool_calls": [call]}
            sample["messages"][3] = {"role": "tool", "content": "Clear.", "tool_call_id": "1", "function": "order"}

    imported = import_log(store, as_json(tmp_path, use_tools), LIMITS)
    events = next(iter(events_by_trial(store, imported.run_id).values()))
    messages = [(event.role, event.text) for event in events if isinstance(event, Utterance)]
    assert messages[2:4] == [("doctor", '[order({"test": "X-ray"})]'), ("tool", "Clear.")]
    with store.read() as cursor:
        assert {case.answer for case in cases(cursor)} == {"asthma"}
    assert {event.question_type for event in events if isinstance(event, Answered)} == {"mcq"}


def test_a_score_called_empathy_is_not_a_rating_of_empathy(store: Store, tmp_path: Path) -> None:
    def rename(log: dict[str, Any]) -> None:
        for sample in log["samples"]:
            sample["scores"] = {"empathy": {"value": 5}}

    import_log(store, as_json(tmp_path, rename), LIMITS)
    with store.read() as cursor:
        assert cursor.execute("SELECT DISTINCT quality, rating FROM ratings").fetchall() == [(IMPORTED_SCORE, None)]


@pytest.mark.slow
def test_different_tasks_are_different_conditions(store: Store, tmp_path: Path) -> None:
    def rename(name: str) -> Callable[[dict[str, Any]], None]:
        return lambda log: log["eval"].update(task=name, eval_id=name)

    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        import_log(store, as_json(folder, rename(name)), LIMITS)
    assert len({row.label["model"] for row in accuracy(store)}) == 2


BROKEN: dict[str, Callable[[dict[str, Any]], object]] = {
    "only version 2 is read": lambda log: log.update(version=1),
    "eval: Field required": lambda log: log.pop("eval"),
    "occurs twice": lambda log: log["samples"].append(log["samples"][0]),
    "epoch: Input should be greater": lambda log: log["samples"][0].update(epoch=0),
    "messages.0.role": lambda log: log["samples"][0].update(messages=[{"role": "nobody", "content": "x"}]),
    "has no sample": lambda log: log.update(samples=[]),
    "Invalid isoformat": lambda log: log["eval"].update(created="yesterday"),
}


@pytest.mark.parametrize("sentence", BROKEN)
def test_a_log_with_a_fault_is_refused_completely(store: Store, tmp_path: Path, sentence: str) -> None:
    path = as_json(tmp_path, BROKEN[sentence])
    with pytest.raises(AnamnesisError, match=sentence) as raised:
        import_log(store, path, LIMITS)
    assert "\n" not in str(raised.value)
    assert str(raised.value).startswith("log.json")
    assert not store.journals.exists() or not list(store.journals.iterdir())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"null",
        b"[]",
        b'{"version": 2',
        b'{"version": 2, "eval": {"created": "2026',
        b"\xff\xfe\x00\x00",
        b'{"a": ' + b"[" * 100_000,
        b'{"version": ' + b"9" * 5_000 + b"}",
    ],
    ids=["empty", "null", "list", "ends", "ends-in-text", "not-utf-8", "deep", "huge-number"],
)
def test_a_file_that_is_no_log_gets_one_sentence(store: Store, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "odd.json"
    path.write_bytes(content)
    with pytest.raises(AnamnesisError, match=r"^odd\.json is not a log of Inspect") as raised:
        import_log(store, path, LIMITS)
    assert "\n" not in str(raised.value)


def test_a_log_that_ends_in_the_middle_stores_nothing(store: Store, tmp_path: Path) -> None:
    whole = as_json(tmp_path).read_bytes()
    for part in (0.3, 0.7, 0.999):
        path = tmp_path / "cut.json"
        path.write_bytes(whole[: int(len(whole) * part)])
        with pytest.raises(AnamnesisError, match="is not a log of Inspect"):
            import_log(store, path, LIMITS)
    with store.read() as cursor:
        assert campaign_ids(cursor) == []


def test_values_are_read_over_the_ends_of_blocks(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = as_json(tmp_path)
    monkeypatch.setattr(inspect_reading, "_BLOCK", 7)
    with inspect_reading.open_log(path, LIMITS) as log:
        assert [(sample.id, sample.epoch) for sample in log.samples] == [
            (sample["id"], sample["epoch"]) for sample in json.loads(path.read_text())["samples"]
        ]


def test_sizes_are_limited(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = as_json(tmp_path)
    for file in (path, ARCHIVE):
        with pytest.raises(AnamnesisError, match=r"GB"):
            import_log(store, file, ArchiveLimits(total_bytes=1_000))
    monkeypatch.setattr(inspect_reading, "LARGEST_VALUE", 2_000)
    monkeypatch.setattr(inspect_reading, "_BLOCK", 1_000)
    for file in (path, ARCHIVE):
        with pytest.raises(AnamnesisError, match="has more than"):
            import_log(store, file, LIMITS)


def zipped(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def test_an_archive_that_leads_out_or_is_no_log_is_refused(store: Store, tmp_path: Path) -> None:
    outside = zipped(tmp_path / "out.eval", {"header.json": b"{}", "samples/../../evil.json": b"{}"})
    with pytest.raises(AnamnesisError, match="path outside itself"):
        import_log(store, outside, LIMITS)
    assert not (tmp_path / "evil.json").exists()
    other = zipped(tmp_path / "other.eval", {"readme.txt": b"hello"})
    with pytest.raises(AnamnesisError, match="it has no header"):
        import_log(store, other, LIMITS)


def test_an_unfinished_archive_has_the_samples_so_far(store: Store, tmp_path: Path) -> None:
    content = {name: value for name, value in members().items() if name != "header.json" and "epoch_2" not in name}
    path = zipped(tmp_path / "half.eval", {name: json.dumps(value).encode() for name, value in content.items()})
    imported = import_log(store, path, LIMITS)
    assert (imported.conversations, imported.status) == (2, "started")


def test_a_member_with_another_checksum_is_refused(tmp_path: Path) -> None:
    data = bytearray(ARCHIVE.read_bytes())
    with zipfile.ZipFile(ARCHIVE) as archive:
        info = archive.getinfo("header.json")
    # the checksum in the directory at the end
    at = data.rindex(struct.pack("<L", info.CRC))
    data[at] ^= 1
    path = tmp_path / "changed.eval"
    path.write_bytes(data)
    with pytest.raises(AnamnesisError, match="another size or checksum"), opened(path, lambda member: True):
        pass


def test_a_member_that_unpacks_to_more_than_it_declares_is_refused(tmp_path: Path) -> None:
    content = b"a" * 1_000
    packed = pa.compress(content * 50, codec="zstd", asbytes=True)
    path = zipped(tmp_path / "bomb.zip", {"cases.json": packed})
    data = bytearray(path.read_bytes())
    for signature, at_method, at_size in ((b"PK\3\4", 8, 22), (b"PK\1\2", 10, 24)):
        start = data.index(signature)
        struct.pack_into("<H", data, start + at_method, 93)
        struct.pack_into("<L", data, start + at_size, len(content))
    path.write_bytes(data)
    with pytest.raises(AnamnesisError, match="another size or checksum"), opened(path, lambda member: True):
        pass


def test_a_log_with_a_value_that_no_column_can_store_leaves_nothing(store: Store, tmp_path: Path) -> None:
    def first(log: dict[str, Any]) -> dict[str, Any]:
        sample: dict[str, Any] = log["samples"][0]
        return sample

    changes: dict[str, Callable[[dict[str, Any]], object]] = {
        "epoch": lambda log: first(log).update(epoch=10**12),
        "long number": lambda log: first(log).update(epoch=10**30),
        "surrogate": lambda log: log["eval"].update(task="\ud800"),
        "setting": lambda log: log["eval"]["model_generate_config"].update(max_tokens=10**40),
        "year": lambda log: log["eval"].update(created="0001-01-01T00:00:00+00:00"),
        "nested": lambda log: first(log)["metadata"].update(deep=json.loads("[" * 400 + "]" * 400)),
    }
    stored = []
    for name, change in changes.items():
        folder = tmp_path / name
        folder.mkdir()
        with suppress(AnamnesisError):
            import_log(store, as_json(folder, change), LIMITS)
            stored.append(name)
    assert stored == ["nested"]  # nothing reads that member of the sample
    assert len(list(store.journals.iterdir())) == 1
    assert not verify(store).findings


@pytest.mark.parametrize("run_id", ["people", "people-sample", "People", "judging-0123456789abcdef", "questions"])
def test_a_log_cannot_name_its_run_like_a_journal_of_jobs_or_people(store: Store, tmp_path: Path, run_id: str) -> None:
    own = {"anamnesis": {"version": 1, "run": {"run_id": run_id}}}
    with pytest.raises(AnamnesisError, match="is no id"):
        import_log(store, as_json(tmp_path, lambda log: log["eval"].update(metadata=own)), LIMITS)
    assert not store.journals.exists() or not list(store.journals.iterdir())


def test_the_names_of_all_journals_of_jobs_are_reserved() -> None:
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "core").rglob("*.py"))
    names = {name for source in sources for name in re.findall(r'journal_of\("(\w+)"|^JOURNAL = "(\w+)"', source, re.M)}
    assert {one or other for one, other in names} | {PEOPLE} <= set(OF_JOBS)


def test_a_log_without_its_version_is_read(store: Store, tmp_path: Path) -> None:
    assert import_log(store, as_json(tmp_path, lambda log: log.pop("version")), LIMITS).new
