"""``models`` on the command line: adding, listing, testing, finding and removing; keys and addresses in ``run``."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from core.cli import models as commands
from core.cli.app import main
from core.models.connection import find_servers
from core.models.registry import load_registry
from tests.docs.pages_of_docs import ROOT, blocks
from tests.support.fake_provider import running
from tests.support.replies import failing


@pytest.fixture(autouse=True)
def file(db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANAMNESIS_MODELS", str(tmp_path / "own.toml"))
    for variable in ("ANTHROPIC_API_KEY", "LAB_KEY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "own.toml"


def test_a_model_is_added_listed_tested_and_removed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def speak(body: dict[str, Any]) -> str:
        return '{"pulse": 1, "fever": true}' if "response_format" in body else "I am well, thank you."

    with running(speak) as provider:
        add = ["models", "add", "lab", "--address", provider.base_url, "--model", "fake-1", "--display", "The lab’s"]
        assert main(add) == 0
        assert "Test it: python -m core models test server/lab" in capsys.readouterr().out
        assert main(add) == 2
        assert "called lab already" in capsys.readouterr().err
        assert main(["models", "list", "--own", "--format", "json"]) == 0
        (row,) = json.loads(capsys.readouterr().out)
        assert row == {
            "model": "server/lab",
            "shown_as": "The lab’s",
            "at": provider.base_url,
            "key": "none",
            "prices": "local",
            "own": "yes",
        }
        assert main(["models", "test", "lab", "--save"]) == 0
        output = capsys.readouterr().out
        assert re.search(r"Answers +yes: I am well, thank you\.\n", output)
        assert re.search(r"Structured replies +by schema\n", output)
        assert "Saved in" in output
        assert {body["model"] for body in provider.bodies} == {"fake-1"}
    assert load_registry().spec("lab").structured == "json_schema"
    assert main(["models", "test", "lab"]) == 1
    assert "nothing listens at" in capsys.readouterr().err
    assert main(["models", "remove", "lab"]) == 0
    assert "lab" not in file.read_text()


def test_a_failed_test_gives_the_reason_and_the_offered_models(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running(lambda body: failing(404, "no such model")) as provider:
        assert main(["models", "add", "lab", "--address", provider.base_url]) == 0
        assert main(["models", "test", "lab"]) == 1
        assert "has no model lab: choose one that it offers (fake-1)." in capsys.readouterr().err


def test_find_lists_local_servers_with_the_command_to_add_one(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with running() as provider:
        monkeypatch.setattr(commands, "find_servers", lambda: find_servers([provider.port]))
        assert main(["models", "find"]) == 0
        output = capsys.readouterr().out
        assert f"at {provider.base_url}: fake-1" in output
        (line,) = re.findall(r"python -m core (models add .*)", output)
        assert main(line.split()) == 0
    assert load_registry().spec("fake-1").name == "server/fake-1"
    monkeypatch.setattr(commands, "find_servers", lambda: find_servers([9]))
    assert main(["models", "find"]) == 1
    assert "Ollama 11434" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x", "--address", "http://h/v1", "--key-env", "sk-hush-0123456789"], "no name of one"),
        (["x", "--python", "a:b", "--address", "http://h/v1"], "leave out --address"),
        (["x", "--provider", "unknown"], "no provider unknown"),
    ],
)
def test_wrong_usage_is_one_sentence(
    file: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["models", "add", *arguments]) == 2
    sentence = capsys.readouterr().err
    assert message in sentence
    assert sentence.count("\n") == 1
    assert "hush" not in sentence
    assert not file.exists()


def test_help_fits_on_a_screen(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["add"], ["test"], ["list"], ["find"], ["get"], ["remove"]):
        main(["models", *words, "--help"])
        output = capsys.readouterr().out
        assert 0 < len(output.splitlines()) <= 40
        assert "...\n" not in output.replace("[ARGS]...\n", ""), "nothing is cut off"


def test_a_run_with_a_missing_key_is_refused_before_any_request(
    file: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file.touch()
    with running() as provider:
        arguments = ["run", "--doctor", "openai/here", "--base-url", provider.base_url, "--limit", "1", "--trials", "1"]
        arguments += ["--patient", "anthropic/claude-opus-5-5", "--grader", "openai/gpt-4o"]
        assert main([*arguments, "--dry-run"]) == 0
        seats_elsewhere = capsys.readouterr().err
        assert main(arguments) == 2
        errors = capsys.readouterr().err
        assert not provider.requests
    for variable, seat in (("ANTHROPIC_API_KEY", "patient"), ("OPENAI_API_KEY", "grader")):
        assert re.search(rf"is missing: set the environment variable {variable}[^()]*\({seat}\)", errors)
    assert (
        "patient: anthropic/claude-opus-5-5, at https://api.anthropic.com/v1 and not at --base-url." in seats_elsewhere
    )
    assert not list(tmp_path.glob("*.journals/*"))


def test_the_function_of_the_docs_can_play_the_doctor(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file.touch()
    (text,) = [block.text for block in blocks(ROOT / "docs/models.md") if block.file == "mydoctor.py"]
    (tmp_path / "mydoctor.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    options = ["--cases", "library:Cardiology", "--limit", "1", "--trials", "1", "--arms", "multi_turn:mcq"]
    assert main(["run", "--doctor", "python:mydoctor:reply", *options]) == 0
    output = capsys.readouterr().out
    assert "an application is the doctor only" in output
    assert "1 trials" in output
    (journal,) = tmp_path.glob("*.journals/*/journal.jsonl")
    assert "heart failure" in journal.read_text()
