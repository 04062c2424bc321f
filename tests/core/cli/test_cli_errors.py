"""Errors of the command line: one plain sentence on stderr, status 2 for wrong usage and 1 for a failure."""

from __future__ import annotations

import os
import re
import socket
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from core import __version__, access, paths
from core.cli import serve
from core.cli.app import main
from core.models import keys
from tests.core.jobs.workshop import spawn
from tests.support.commands import finish

KEY = "sk-this-is-a-secret-1234567890"
RUN = ("run", "--doctor", "reference/bayes", "--limit", "1", "--trials", "1")
OWN = """
[providers.own]
kind = "openai"
base_url = "https://models.invalid/v1"
api_key_env = "ANAMNESIS_TEST_NO_SUCH_KEY"
"""


def test_an_error_in_a_child_process_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(OWN)
    env = {"ANAMNESIS_MODELS": str(tmp_path / "own.toml"), "OPENAI_API_KEY": KEY}
    done = finish(spawn(tmp_path / "some.duckdb", "run", "--doctor", "own/any", "--limit", "1", env=env))
    assert (done.returncode, done.stdout) == (2, "")
    sentence = r"The key for own/any is missing: set the environment variable ANAMNESIS_TEST_NO_SUCH_KEY, .*\n"
    assert re.fullmatch(sentence, done.stderr), done.stderr
    assert "Traceback" not in done.stderr
    assert KEY not in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("models", "get", "~nobody-here/m.gguf"),
        ("models", "add", "mine", "--address", "http://127.0.0.1:1/v1", "--model", "~nobody-here/m"),
        ("experts", "import", "~nobody-here/answers.csv"),
        ("import", "craftmd", "~nobody-here/release"),
    ],
)
def test_the_home_of_an_unknown_user_is_one_sentence(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "a.duckdb"))
    monkeypatch.setenv("ANAMNESIS_MODELS", str(tmp_path / "models.toml"))
    (tmp_path / "models.toml").touch()
    status, message = run_failing(capsys, *command)
    assert status == 2
    assert "~nobody-here/" in message


def run_failing(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Return the status of a command and the single line that it writes to stderr."""
    status = main(list(arguments))
    printed = capsys.readouterr()
    assert printed.err.count("\n") == 1, printed.err
    assert printed.err.rstrip("\n").endswith((".", "?", "!"))
    return status, printed.err.rstrip("\n")


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        ((*RUN[:3], "--trials", "0"), 2, "--trials must be at least 1"),
        ((*RUN[:3], "--trials", "many"), 2, "Invalid value for '--trials'"),
        ((*RUN[:3], "--limit", "0"), 2, "--limit must be at least 1"),
        ((*RUN, "--concurrency", "0"), 2, "Invalid value for '--concurrency'"),
        ((*RUN, "--protocol", "other"), 2, "there is no protocol 'other': choose craftmd"),
        ((*RUN, "--arms", ""), 2, "No arm was named"),
        ((*RUN, "--arms", "vignette:mcq,vignette:mqc"), 2, "'vignette:mqc' is no arm: write format:"),
        (("import", "cases", "/nowhere/cases.csv"), 2, "There is no file /nowhere/cases.csv."),
        (("run", "--doctor", "openai/gpt4o", "--base-url", "http://x", "--patient", "gpt-4p"), 2, "did you mean"),
        ((*RUN, "--cases", "libary"), 2, "There is no data set 'libary': choose one of library"),
        ((*RUN, "--cases", "library:Cardiolgy"), 2, "Did you mean Cardiology"),
        ((*RUN, "--cases", "library:Cardiology,Neurology"), 2, "one specialty (library:Cardiology), or list the ids"),
        ((*RUN, "--prompts", "nowhere"), 2, "There are no prompts 'nowhere'"),
        ((*RUN, "--temperature", "-1"), 2, "--temperature must be from 0 to 2"),
        ((*RUN, "--max-messages", "2"), 2, "--max-messages: it must be at least 4"),
        (("run", "--doctor", "human"), 2, "A campaign cannot wait for a person"),
        (("run", "--doctor", "reference/names"), 2, "the reference kind is called reference/bayes"),
        (
            ("run", "--doctor", "openai/doctor", "--base-url", "https://a.example.org/v1", "--budget-usd", "1"),
            2,
            "A budget needs prices, and none is known for openai/doctor",
        ),
        (("run", "--doctor", "openai/doctor", "--base-url", "nowhere"), 2, "must look like http://127.0.0.1:8000/v1"),
        (("run",), 2, "Missing option '--doctor'"),
        (("rnu",), 2, "No such command 'rnu'"),
        (("resume", "20200101"), 2, "There is no run '20200101'; `python -m core runs` lists them."),
        (("report", "accuracy"), 1, "There is nothing to report yet. Start a campaign: `python -m core run"),
        (("job", "regrade", "--run", "2020", "--grader", "reference/names"), 2, "There is no run '2020'"),
        (("report", "accuracy", "--asks-for", "tests"), 2, "No question asks for 'tests': choose among diagnosis"),
        (("report", "accuracy", "--by", "age"), 2, "Invalid value for '--by'"),
        (("report", "accuracy", "--format", "xml"), 2, "Invalid value for '--format'"),
        (("report", "accuracy", "--run", "2020"), 2, "There is no run '2020'"),
        (("export", "results", "--out", "/nowhere/results.csv"), 2, "There is no folder /nowhere"),
        (("export", "results", "--out", "results.xls"), 2, "the name must end in .csv or .parquet"),
        (("export", "transcripts", "2020", "--out", "t.jsonl"), 2, "There is no run '2020'"),
        (("check", "cases", "nothing"), 2, "There is no data set 'nothing'"),
        (("serve", "--port", "0"), 2, "Invalid value for '--port'"),
        (("serve", "--host", "0.0.0.0"), 2, "everybody who reaches 0.0.0.0 could do all that you can: set up a login"),
        (("serve", "--host", "::"), 2, "everybody who reaches :: could do all that you can"),
    ],
)
def test_wrong_usage_is_refused_with_a_sentence(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], status: int, sentence: str
) -> None:
    returned, message = run_failing(capsys, *arguments)
    assert returned == status
    assert sentence in message


def test_version_prints_the_version_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"anamnesis {__version__}\n"
    package = tomllib.loads((paths.ROOT / "pyproject.toml").read_text())
    assert package["project"]["version"] == __version__


def test_a_run_that_cannot_start_creates_no_journal(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_failing(capsys, "run", "--doctor", "openai/gpt-4o", "--limit", "1")
    assert not (db.parent / "anamnesis.journals").exists()


@pytest.fixture
def busy_port() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


def test_a_port_in_use_is_reported(capsys: pytest.CaptureFixture[str], busy_port: int) -> None:
    status, message = run_failing(capsys, "serve", "--port", str(busy_port), "--no-browser")
    assert status == 1
    assert message.startswith(f"Port {busy_port} is in use: ")
    assert f"--port {busy_port + 1}" in message


def test_a_server_for_others_needs_a_login_or_no_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda program, command: commands.append(command))
    monkeypatch.setattr(keys, "SECRETS", tmp_path / "secrets.toml")
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "a.duckdb"))
    monkeypatch.setenv(access.LOGIN, "")  # so that monkeypatch restores the variable
    monkeypatch.delenv(access.LOGIN)
    everywhere = ("serve", "--port", "8519", "--no-browser", "--host", "0.0.0.0")
    assert main([*everywhere, "--no-login"]) == 0
    assert "--server.address=0.0.0.0" in commands[0]
    assert access.LOGIN not in os.environ
    (tmp_path / "secrets.toml").write_text("[auth]\n")
    monkeypatch.setattr(serve, "find_spec", lambda name: None)
    assert run_failing(capsys, *everywhere)[1].startswith("A login needs Authlib: install it with `pip install -r req")
    monkeypatch.setattr(serve, "find_spec", lambda name: name)
    assert main([*everywhere]) == 0
    assert len(commands) == 2
    assert f"{tmp_path / 'access.toml'} admits 0 users." in capsys.readouterr().out
    assert os.environ.pop(access.LOGIN) == "yes"
    status, message = run_failing(capsys, *everywhere, "--no-login")
    assert (status, message.split(":")[0]) == (2, "[auth] is configured in .streamlit/secrets.toml")


def test_a_file_that_is_no_database_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are notes\n" * 1000)
    monkeypatch.setenv("ANAMNESIS_DB", str(path))
    status, message = run_failing(capsys, "runs")
    assert status == 1
    assert message.startswith(f"The database {path} cannot be opened: ")
    assert path.read_text() == "these are notes\n" * 1000


def test_an_unreadable_models_file_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "models.toml"
    path.write_text("[providers.openai\n")
    monkeypatch.setenv("ANAMNESIS_MODELS", str(path))
    status, message = run_failing(capsys, *RUN)
    assert status == 2
    assert message.startswith(f"The models file {path} is no valid TOML")


def test_an_export_never_overwrites(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "results.csv"
    out.write_text("mine")
    status, message = run_failing(capsys, "export", "results", "--out", str(out))
    assert (status, message) == (1, f"{out} exists already: choose another name.")
    assert out.read_text() == "mine"


def test_resuming_a_run_with_a_damaged_journal_is_refused(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN, "--arms", "vignette:mcq"]) == 0
    (journal,) = db.parent.glob("*/*/journal.jsonl")
    first, second = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(first + b"damaged\n" + second)
    capsys.readouterr()
    status, message = run_failing(capsys, "resume", journal.parent.name)
    assert status == 1
    assert f"{journal} is damaged in the line that ends at byte {len(first) + 8}" in message
