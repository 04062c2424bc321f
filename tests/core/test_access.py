"""Rights on a shared server: two roles, paths and hosts, and everything that who may only look is refused."""

from __future__ import annotations

import csv
import io
import json
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from core import access, paths
from core.access import ANONYMOUS, HERE, NotAllowedError, Visitor
from core.datasets import imported
from core.datasets.importing import import_file
from core.datasets.library import library
from core.datasets.select import select
from core.debugger.packs import save_pack
from core.debugger.question import ask_model
from core.debugger.run import resume_bench, start_bench, start_edited
from core.debugger.stored import load_bench
from core.errors import UsageError
from core.frameworks.base import Campaign
from core.frameworks.casting import CastNames
from core.frameworks.consultation.jobs import Solving
from core.jobs import run as jobs
from core.jobs.ask_job import begin_job
from core.jobs.background import begin, begin_import
from core.jobs.judge import Judging
from core.jobs.plan import header_of
from core.jobs.profiling import Profiling
from core.jobs.progress import ask_to_stop
from core.jobs.regrade import Regrading
from core.journal import RunHeader, journal_path, read_header
from core.live.branch import BranchPlan, start_branch, stored_origin
from core.live.start import all_unfinished, load_trial, one_case, resume_consultation, start_consultation
from core.models import keys
from core.models.connection import find_servers, offered, try_model
from core.models.fetch import get
from core.models.register import Entry, add, keep, remove
from core.models.registry import load_registry
from core.models.spec import is_private
from core.prompts import load_pack
from core.reviews.answering import record
from core.reviews.exchange import export_answers
from core.reviews.reviewing import plan_review, unblind, withdraw
from core.reviews.state import COMMENT, state_of
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.branches import delete_branch
from core.store.queries.fact_sets import save_facts
from core.store.queries.profiles import add_profiles, delete_profiles
from core.store.queries.run_labels import Label, delete_run, label_run
from core.store.queries.runs import run_ids
from core.store.queries.variants import step_replies
from core.store.rows import row_line
from core.store.sample import add_sample
from core.store.tables import VariantRow
from tests.core.measures.experts.reviews import a_plan, a_review, store_conversations
from tests.core.store.builders import a_case, a_header, a_trial, write_journal
from tests.support.fake_provider import FakeProvider
from tests.support.stores import copy_of

VIEWER, RUNNER, OTHER, CONTACT = "vera@example.org", "rita@example.org", "otto@example.org", "ada@example.org"
FILE = f"""
contact = "{CONTACT}"
folders = ["allowed"]
[people]
"{VIEWER}" = "look"
"{RUNNER}" = "run"
"{OTHER}" = "run"
"*@clinic.example" = "look"
"""
SECRET = a_case(7, case_key="pasted/Only Rita knows", dataset="pasted", vignette="Rita pasted this.")


def shared(store: Store) -> None:
    """Store conversations with a review; and of Rita a pasted case, a begun consultation and a step's reply."""
    store_conversations(store, cases=4)
    a_review(store, annotators=(VIEWER, "Ben"))
    header = a_header("bench-rita", [SECRET], source="bench", visitor=RUNNER, trials=1, case_set="pasted:1")
    line = a_trial(trial_id="of-rita", run_id="bench-rita", case_key=SECRET.case_key)
    write_journal(store.journals, "bench-rita", header, line)
    begun = a_header("live-rita", [library()[0]], source="live", visitor=RUNNER, trials=1)
    write_journal(store.journals, "live-rita", begun)
    outcome = json.dumps({"response": "Rita's own", "verdicts": []})
    reply = VariantRow("v1", "t01", "doctor-1", "[]", "openai/a", outcome, "", 9.0, RUNNER)
    write_journal(store.journals, "variants", row_line(reply, ""))
    fold(store)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "anamnesis.duckdb"))
    monkeypatch.setenv("ANAMNESIS_MODELS", str(tmp_path / "models.local.toml"))
    store = copy_of(shared, tmp_path)
    (tmp_path / "models.local.toml").touch()
    (tmp_path / "allowed").mkdir()
    (tmp_path / "access.toml").write_text(FILE.replace("allowed", str(tmp_path / "allowed")))
    return store


def acting(name: str) -> Any:
    return access.acting(access.person(name))


# roles


def test_local_users_may_do_everything(server: Store) -> None:
    assert access.visitor() == HERE
    access.require("local")
    access.allowed_host("http://169.254.169.254/")
    assert access.allowed_path("/etc/passwd") == Path("/etc/passwd")
    assert access.visible_owner() is None


def test_roles_come_from_the_file_and_others_have_no_rights(server: Store) -> None:
    roles = {name: access.person(name).role for name in (VIEWER, RUNNER, "new@clinic.example", "new@else.example")}
    assert list(roles.values()) == ["look", "run", "look", None]
    assert access.person(f" {RUNNER.upper()} ") == Visitor(RUNNER, "run")
    may = {role: [right for right in access._ROLES if Visitor("x", role).may(right)] for role in ("look", "run", None)}
    assert may == {"look": ["look"], "run": ["look", "run"], None: []}
    with acting(VIEWER), pytest.raises(NotAllowedError, match=f"You may look here, .*: ask {CONTACT}"):
        access.require("run")
    with acting(RUNNER), pytest.raises(NotAllowedError, match=f"at its command line: ask {CONTACT}"):
        access.require("local")
    with access.acting(ANONYMOUS), pytest.raises(NotAllowedError, match="not let in here: sign in"):
        access.require("look")


def test_an_invalid_file_of_roles_is_refused(server: Store, subtests: pytest.Subtests) -> None:
    table: list[tuple[str, str]] = [
        ('[people]\n"a@b" = "boss"', "people.a@b: input should be 'look' or 'run'"),
        ('[people]\n"a@b" = "local"', "people.a@b: input should be 'look' or 'run'"),
        ('[people]\n"a@b" = "admin"', 'people.a@b: the role admin of version 0.5 is "run" now'),
        ('[limits."a@b"]\nusd_a_day = 5', "limits: version 0.6 has no limits per person: remove it"),
        ("live_sessions = 4", "live_sessions: version 0.6 has no limits per person: remove it"),
        ("colour = 1", "colour: there is no such setting"),
        ("[people", "is no readable TOML"),
    ]
    for text, words in table:
        with subtests.test(text=text, words=words):
            access.rules_file().write_text(text)
            with pytest.raises(UsageError, match=words.replace(".", r"\.")):
                access.person(VIEWER)


def test_the_example_in_the_docs_is_valid(server: Store) -> None:
    text = (paths.ROOT / "docs" / "server.md").read_text(encoding="utf-8")
    access.rules_file().write_text(text.partition("<!-- file: access.toml -->\n```toml\n")[2].partition("```")[0])
    assert [access.person(f"{name}@example.org").role for name in ("ana", "ben", "eve")] == ["run", "run", "look"]


def test_threads_and_child_processes_know_their_visitor(server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with acting(RUNNER):
        work = begin("who", lambda tell, stop: access.visitor().name)
        child = access.environment()
    work.join(10)
    assert work.result == RUNNER
    for name, value in child.items():
        monkeypatch.setenv(name, value)
    assert access.visitor() == Visitor(RUNNER, "run")
    with acting(VIEWER), pytest.raises(NotAllowedError):
        work.stop()


# paths and hosts


def test_only_paths_in_allowed_folders_are_accepted(server: Store, tmp_path: Path) -> None:
    inside = tmp_path / "allowed"
    (inside / "cases.csv").touch()
    (inside / "out").symlink_to("/etc")
    (inside / "loop").symlink_to(inside / "loop")
    with acting(RUNNER):
        assert access.allowed_path(inside / "cases.csv") == (inside / "cases.csv").resolve()
        assert access.allowed_path(inside / "not there") == (inside / "not there").resolve()
        for path in ("/etc/passwd", inside / "out" / "passwd", inside / ".." / "access.toml", "~root", "", "a\0b",
                     inside / "loop" / "x", f"{inside}-other/x", tmp_path / "anamnesis.duckdb"):  # fmt: skip
            with pytest.raises(NotAllowedError, match=r"is not in an allowed folder \(.*/allowed\):"):
                access.allowed_path(path)
    with acting(VIEWER), pytest.raises(NotAllowedError, match="may look"):
        access.allowed_path(inside / "cases.csv")


RESOLVED = {
    "api.example.com": ["93.184.216.34"], "inside.example.com": ["10.0.0.5"],
    "both.example.com": ["93.184.216.34", "::1"],
    "2130706433": ["127.0.0.1"], "mapped.example.com": ["::ffff:169.254.169.254"], "lab.example.org": ["10.0.0.9"],
}  # fmt: skip


def test_only_allowed_hosts_are_reached(server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def looked_up(host: str, port: int, *_: object) -> list[Any]:
        if host not in RESOLVED:
            raise socket.gaierror("no such name")
        return [(0, 0, 0, "", (address, port)) for address in RESOLVED[host]]

    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    file, before = access.rules_file(), access.rules_file().read_text()

    def allowed(url: str) -> bool:
        try:
            access.allowed_host(url)
        except NotAllowedError:
            return False
        return True

    with acting(RUNNER):
        assert [url for url in (
            "http://127.0.0.1:8000/v1", "http://localhost/v1", "http://[::1]:8080/v1", "http://127.0.0.2/", "http://10.0.0.5/",
            "https://api.example.com", "http://169.254.169.254/", "file:///etc/passwd", "http://localhost.evil.com/",
            "http://127.0.0.1@10.0.0.5/", "http://[::ffff:127.0.0.1]/", "http://2130706433/", "http:///v1", "nonsense",
        ) if allowed(url)] == ["http://127.0.0.1:8000/v1", "http://localhost/v1", "http://[::1]:8080/v1"]  # fmt: skip
        file.write_text('hosts = ["*", "lab.example.org:8000"]\n' + before)
        assert [url for url in (
            "https://api.example.com/v1", "http://inside.example.com/", "http://both.example.com/", "http://mapped.example.com",
            "http://2130706433/", "http://lab.example.org:8000/v1", "http://lab.example.org/v1", "http://nowhere.example.com/",
        ) if allowed(url)] == ["https://api.example.com/v1", "http://lab.example.org:8000/v1"]  # fmt: skip


def test_redirects_are_not_followed(server: Store, fake_provider_thread: FakeProvider) -> None:
    class LeadsOn(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(307)
            self.send_header("Location", f"{fake_provider_thread.base_url}/chat/completions")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), LeadsOn) as leads_on:
        threading.Thread(target=leads_on.serve_forever, args=(0.01,), daemon=True).start()
        add(Entry("led", address=f"http://127.0.0.1:{leads_on.server_port}/v1"))
        with acting(RUNNER):
            assert not try_model(load_registry(), "server/led").ok
        # also not for a local user, since text and key would go to the other host
        assert not try_model(load_registry(), "server/led").ok
        assert fake_provider_thread.requests == []
        leads_on.shutdown()


# personal data


def test_pastes_consultations_and_replies_of_others_are_hidden(server: Store) -> None:
    def seen() -> tuple[list[str], bool, bool, list[str | None]]:
        with server.read() as cursor:
            ids, replies = run_ids(cursor), step_replies(cursor, "t01", "doctor-1")
            pasted_cases = cursor.execute("SELECT count(*) FROM cases WHERE dataset = 'pasted'").fetchall()[0][0]
        runs = sorted(set(ids) & {"bench-rita", "live-rita"})
        return runs, load_trial("of-rita") is not None, bool(pasted_cases), [reply.response for reply in replies]

    everything = (["bench-rita", "live-rita"], True, True, ["Rita's own"])
    with acting(RUNNER):
        assert seen() == everything
        assert [trial for _, trial in all_unfinished()] != []
    for name in (VIEWER, OTHER):
        with acting(name):
            assert seen() == ([], False, False, [])
            assert all_unfinished() == []
            with server.read() as cursor:
                assert set(run_ids(cursor)) == {"run0", "run1"}  # runs without an owner
    assert seen() == everything


def test_an_address_that_maps_to_a_private_one_is_not_public(subtests: pytest.Subtests) -> None:
    table: list[tuple[str, bool]] = [
        ("8.8.8.8", True), ("2001:4860:4860::8888", True), ("64:ff9b::808:808", True), ("2002:808:808::1", True),
        ("::ffff:8.8.8.8", True), ("127.0.0.1", False), ("::1", False), ("::", False), ("::127.0.0.1", False),
        ("::10.0.0.1", False), ("64:ff9b::7f00:1", False), ("64:ff9b::1", False), ("64:ff9b:1::a00:1", False),
        ("::ffff:0:7f00:1", False), ("::ffff:0:808:808", True), ("::ffff:127.0.0.1", False),
        ("2002:7f00:1::1", False), ("2002:a00:1::1", False), ("2001:0:1:2:3:4:80ff:fffe", False), ("fd00::5", False),
    ]  # fmt: skip
    for address, public in table:
        with subtests.test(address=address, public=public):
            assert access._is_public(address, 80) is public
            assert is_private(f"http://[{address}]/" if ":" in address else f"http://{address}/") is not public


def test_the_servers_key_is_not_sent_to_a_visitors_address(server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "the-servers-own")
    monkeypatch.setattr(access, "allowed_host", lambda url: None)

    def sent(base_url: str | None) -> SecretStr | None:
        registry = load_registry()
        return registry.key(registry.spec("openai/gpt-4o", base_url=base_url))

    with acting(RUNNER):
        assert sent(None) == SecretStr("the-servers-own")
        assert sent("https://elsewhere.example.com/v1") is None
        keys.hold("OPENAI_API_KEY", SecretStr("rita-typed"))
        assert sent("https://elsewhere.example.com/v1") == SecretStr("rita-typed")
    keys.remove_key("OPENAI_API_KEY")
    assert sent("https://elsewhere.example.com/v1") == SecretStr("the-servers-own")


def test_a_typed_key_is_only_used_for_its_visitor(server: Store) -> None:
    with acting(RUNNER):
        keys.hold("A_KEY_OF_RITA", SecretStr("k-1"))
        assert keys.find_setting("A_KEY_OF_RITA") == "k-1"
    with acting(OTHER):
        assert keys.find_setting("A_KEY_OF_RITA") is None
        assert "A_KEY_OF_RITA" not in keys.environment({})
    keys.remove_key("A_KEY_OF_RITA")


# what a viewer may, and may not


def test_a_viewer_answers_reviews_under_their_own_name(server: Store) -> None:
    with acting(VIEWER):
        state = state_of(server, "First")
        own_item = state.items_for(VIEWER)[0]
        record(server, "First", own_item.number, VIEWER, state.review.plan.questions[0], "yes")
        record(server, "First", own_item.number, VIEWER, COMMENT, "Clear.")
        assert state_of(server, "First").value(own_item.item, VIEWER, state.review.plan.questions[0]) == "yes"
        item_of_ben = state.items_for("Ben")[0]
        with pytest.raises(NotAllowedError, match="cannot answer as Ben"):
            record(server, "First", item_of_ben.number, "Ben", state.review.plan.questions[0], "yes")


def refuse_if_hidden(stored: object) -> None:
    """Raise a refusal for hidden data, which looks as if it were not stored."""
    if stored is None:
        raise NotAllowedError("It is not stored here.")


def _campaign() -> Campaign:
    return Campaign(names=CastNames("reference/bayes"), cases=(a_case(),), arms=(("vignette", "mcq"),), trials=1)


def _header() -> RunHeader:
    return header_of(_campaign(), load_registry())


ATTEMPTS: dict[str, Callable[[Store, Path], object]] = {
    "start a campaign": lambda store, _: jobs.start(_header(), None, None),
    "carry one out": lambda store, _: jobs.carry_out(_header(), load_registry(), jobs.Options()),
    "go on with one": lambda store, _: jobs.go_on("run0"),
    "stop one": lambda store, _: ask_to_stop("run0"),
    "start a consultation": lambda store, _: start_consultation(one_case(_campaign(), a_case())),
    "go on with another's": lambda store, _: resume_consultation(read_header(journal_path("live-rita"))),
    "branch off a conversation": lambda store, _: start_branch(
        BranchPlan(1, "No.", CastNames("reference/bayes")), stored_origin("t01")
    ),
    "run a pasted case": lambda store, _: start_bench(_campaign()),
    "go on with another's paste": lambda store, _: resume_bench("bench-rita"),
    "edit a run of the debugger": lambda store, _: start_edited(a_header("run0", [a_case()]), a_case(), "Else.", {}),
    "read another's paste": lambda store, _: refuse_if_hidden(load_bench("bench-rita")),
    "read another's conversation": lambda store, _: refuse_if_hidden(load_trial("of-rita")),
    "read another's journal": lambda store, _: read_header(journal_path("bench-rita")),
    "ask a model": lambda store, _: ask_model("openai/gpt-4o", lambda voice, pack: None, "x"),  # type: ignore[arg-type,return-value]
    "have conversations judged": lambda store, _: begin_job(Judging("facts", ("openai/gpt-4o",))),
    "grade again": lambda store, _: begin_job(Regrading(("run0",), "reference/names")),
    "solve beginnings": lambda store, _: begin_job(Solving("reference/solver")),
    "make profiles": lambda store, _: begin_job(Profiling(tuple(library()[:1]), "openai/test")),
    "import a file by its path": lambda store, _: import_file(access.allowed_path("/etc/hostname")),
    "import a file": lambda store, folder: import_file(folder / "quiz.csv"),
    "import a release": lambda store, _: begin_import(store, None, None, "x", None),  # type: ignore[arg-type]
    "delete a data set": lambda store, _: imported.delete("quiz"),
    "delete profiles": lambda store, _: _written(store, delete_profiles, ["ours/1"]),
    "save a profile": lambda store, _: _written(store, add_profiles, []),
    "save facts": lambda store, _: _written(store, save_facts, a_case(), [], "me"),
    "save a prompt pack": lambda store, _: save_pack("mine", "craftmd", {}),
    "read prompts by a path": lambda store, folder: load_pack(str(folder)),
    "read a training set by a path": lambda store, _: select("library:test@/etc"),
    "open a model by a path": lambda store, _: load_registry().open("hf//etc"),
    "call inside": lambda store, _: load_registry().open("server/x", base_url="http://169.254.169.254/v1"),
    "ask a server for its models": lambda store, _: offered("http://127.0.0.1:22"),
    "look for servers": lambda store, _: find_servers((1,)),
    "test a model": lambda store, _: try_model(load_registry(), "openai/gpt-4o"),
    "add a model": lambda store, _: add(Entry("mine", address="http://127.0.0.1:9/v1")),
    "keep what a test found": lambda store, _: keep("openai/gpt-4o", {"structured": "none"}),
    "remove a model": lambda store, _: remove("mine"),
    "get a model": lambda store, _: get("smollm2-135m"),
    "run a program as a model": lambda store, _: load_registry().open("python:os:system"),
    "type a key": lambda store, _: keys.hold("OPENAI_API_KEY", SecretStr("k-x")),
    "name a run": lambda store, _: label_run(store, "run0", Label("Mine")),
    "delete a run": lambda store, _: delete_run(store, "run0"),
    "delete another's": lambda store, _: delete_run(store, "bench-rita"),
    "delete a branch": lambda store, _: delete_branch("of-rita", store),
    "plan a review": lambda store, _: plan_review(store, "Second", a_plan()),
    "unblind a review": lambda store, _: unblind(store, "First", VIEWER, "curious"),
    "withdraw a review": lambda store, _: withdraw(store, "First", "curious"),
    "answer as somebody else": lambda store, _: record(store, "First", 1, "Ben", COMMENT, "Hm."),
    "add the sample study": lambda store, _: add_sample(store),
}  # fmt: skip


UNSEEN = ("delete another's", "delete a branch", "run a program as a model")
"""Attempts that fail like missing data, or for every visitor."""


def _written(store: Store, write: Callable[..., object], *what: object) -> None:
    with store.write() as connection:
        write(connection, *what)


def test_every_attempt_of_a_viewer_is_refused_without_a_trace(
    server: Store, tmp_path: Path, fake_provider_thread: FakeProvider
) -> None:
    (tmp_path / "quiz.csv").write_text("id,question,options,answer\n1,What?,A|B,A\n")

    def files_left() -> dict[str, bytes]:
        written_by_server = (server.path, server.path.with_name(f"{server.path.name}.wal"))
        files = [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".lock"]
        return {str(path): path.read_bytes() for path in files if path not in written_by_server}

    def row_counts() -> list[Any]:
        names = "runs trials variants profiles case_lists reviews judgements unblindings scores run_labels grades"
        with server.read() as cursor:
            return [cursor.execute(f"SELECT count(*) FROM {name}").fetchall() for name in names.split()]

    before, threads, succeeded = (files_left(), row_counts()), set(threading.enumerate()), list[str]()
    with acting(VIEWER):
        for what, attempt in ATTEMPTS.items():
            with suppress(UsageError if what in UNSEEN else NotAllowedError):
                attempt(server, tmp_path)
                succeeded.append(what)
    assert succeeded == []
    assert len(ATTEMPTS) == 48
    assert (files_left(), row_counts()) == before
    assert [new.name for new in threading.enumerate() if new not in threads and new.name != "lease"] == []


def test_exports_of_a_blinded_review_contain_own_answers_only(server: Store) -> None:
    state = state_of(server, "First")
    for name in state.review.plan.annotators:
        record(server, "First", state.items_for(name)[0].number, name, state.review.plan.questions[0], "yes")

    def annotators(name: str) -> set[str]:
        text = io.StringIO()
        with acting(name):
            export_answers(server, text)
        return {row["annotator"] for row in csv.DictReader(io.StringIO(text.getvalue()))}

    assert annotators(VIEWER) == {VIEWER}
    assert annotators(RUNNER) == set()
    unblind(server, "First", "Ada", "The study was ended.")
    assert annotators(RUNNER) == {VIEWER, "Ben"}


def test_a_visitor_without_rights_cannot_control_a_consultation(server: Store) -> None:
    campaign = Campaign(names=CastNames("reference/bayes", patient="human"), cases=(library()[0],))
    with acting(RUNNER):
        session = start_consultation(one_case(campaign, library()[0]))
    try:
        with acting(OTHER):  # also a runner, but not the owner
            for act in (session.pause, session.resume, session.step, session.stop, lambda: session.say("patient", "x")):
                with pytest.raises(NotAllowedError, match="somebody else's"):
                    act()
        access.rules_file().write_text(FILE.replace(f'"{RUNNER}" = "run"', f'"{RUNNER}" = "look"'))
        with acting(RUNNER):
            for act in (session.resume, session.step, lambda: session.say("patient", "My toe hurts.")):
                with pytest.raises(NotAllowedError, match="You may look here"):
                    act()
            session.pause()
            session.stop()  # ending an own consultation costs nothing
        session.join(10)
        assert session.spoken == []
    finally:
        session.stop()
        session.join(10)


def test_who_may_run_edits_and_the_command_line_deletes_what_is_shared(server: Store) -> None:
    with acting(RUNNER):
        label_run(server, "run0", Label("Ours"))
        with pytest.raises(NotAllowedError, match="at its command line"):
            delete_run(server, "run0")
        delete_run(server, "bench-rita")  # their own
    delete_run(server, "run0")
    with server.read() as cursor:
        assert not {"run0", "bench-rita"} & set(run_ids(cursor))
