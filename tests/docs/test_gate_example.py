"""The example for GitHub Actions runs as it is written, with a scripted provider in the place of the models."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from core.cli.app import main
from core.models import keys
from tests.docs.pages_of_docs import ROOT, blocks
from tests.support.fake_provider import running

OPTION = "python -m core "


@pytest.mark.slow
@pytest.mark.parametrize(("wrong", "status"), [("openai/nobody", 0), ("openai/doctor-2", 1)])
def test_the_job_passes_with_equal_models_and_fails_with_a_worse_one(
    wrong: str, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reply(body: dict[str, Any]) -> str:
        missed = "Zebra" in str(body["messages"][-1])
        if "Reply with one word, Yes or No" in str(body):
            return "No" if missed else "Yes"
        diagnosis = "Zebra" if missed or wrong == f"openai/{body['model']}" else "Gout"
        return f"**Final Diagnosis:** {diagnosis}"

    (workflow,) = (yaml.safe_load(block.text) for block in blocks(ROOT / "docs/gate.md") if block.file.endswith(".yml"))
    job = workflow["jobs"]["gate"]
    for name, value in job["env"].items():
        monkeypatch.setenv(name, value if "secrets." not in value else "a-key")
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "a.duckdb"))
    monkeypatch.setattr(keys, "SECRETS", tmp_path / "secrets.toml")
    monkeypatch.chdir(tmp_path)
    commands = [step["run"] for step in job["steps"] if step.get("run", "").startswith(OPTION)]
    with running(reply) as provider:
        monkeypatch.setenv("OPENAI_BASE_URL", provider.base_url)
        outcomes = [main(shlex.split(os.path.expandvars(command.removeprefix(OPTION)))) for command in commands]
    assert outcomes == [0, 0, status, 0]
    assert (tmp_path / "results.tar.gz").exists()
