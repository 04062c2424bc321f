"""The fake provider that other tests rely on."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

from tests.support.fake_provider import running


def post(base_url: str, **body: object) -> dict[str, object]:
    data = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}], **body}).encode()
    request = urllib.request.Request(f"{base_url}/chat/completions", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.loads(answer.read())  # type: ignore[no-any-return]


def test_a_request_without_streaming_gets_the_whole_reply() -> None:
    with running(["First.", "Second."]) as provider:
        texts = [post(provider.base_url)["choices"][0]["message"]["content"] for _ in range(3)]  # type: ignore[index]
    assert texts == ["First.", "Second.", "Second."]
    assert [body["messages"][0]["content"] for body in provider.bodies] == ["hi"] * 3


def test_it_runs_as_a_process_and_logs_its_requests(tmp_path: Path) -> None:
    log = tmp_path / "requests.jsonl"
    module = [sys.executable, "-m", "tests.support.fake_provider"]
    command = [*module, "--port", "0", "--script", "demo", "--log", str(log)]
    root = Path(__file__).resolve().parents[3]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            base_url = process.stdout.readline().strip()
            reply = post(base_url, messages=[{"role": "user", "content": "What is the diagnosis?"}])
        finally:
            process.terminate()
    assert "Final Diagnosis" in json.dumps(reply)
    assert json.loads(log.read_text())["body"]["messages"][0]["content"] == "What is the diagnosis?"
