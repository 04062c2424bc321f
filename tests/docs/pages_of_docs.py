"""The parts of the documentation that can be checked: commands, their files, links, and the layout.

As a program (``python -m tests.docs.pages_of_docs PAGE.md``) it runs the commands of a page.

An HTML comment above a fenced block gives its kind: ``<!-- file: NAME -->`` is a file that the commands need,
``<!-- not run: WHY -->`` commands that are only read. In commands ``RUN`` stands for the newest run, ``TRIAL`` and
``OTHER`` for two of its conversations.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(r"^(?:<!-- *(?P<mark>.*?) *-->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S)
_COMMAND = "python -m core"


@dataclass(frozen=True)
class Block:
    """A fenced block of a page, with the comment above it."""

    language: str
    text: str
    file: str = ""
    not_run: str = ""

    @property
    def lines(self) -> list[str]:
        """The lines of a shell block without prompts; continued lines are joined."""
        whole = self.text.replace("\\\n", " ").splitlines() if self.language in ("sh", "console") else []
        return [line.removeprefix("$ ").strip() for line in whole]

    @property
    def commands(self) -> list[list[str]]:
        return [arguments(line) for line in self.lines if line.startswith(_COMMAND)]


def blocks(page: Path) -> Iterator[Block]:
    for match in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        kind, _, argument = (match["mark"] or "").partition(": ")
        marks = {"file": argument} if kind == "file" else {"not_run": argument} if kind == "not run" else {}
        yield Block(match["language"], match["text"], **marks)


def arguments(line: str) -> list[str]:
    """Return the arguments of a command line, without a comment at its end."""
    return shlex.split(line.removeprefix(_COMMAND), comments=True)


def run_page(page: Path) -> int:
    """Write the page's files here, then run its commands in order; stop at the first that fails."""
    for block in blocks(page):
        if block.file:
            Path(block.file).parent.mkdir(parents=True, exist_ok=True)
            Path(block.file).write_text(block.text, encoding="utf-8")
        for line in () if block.not_run else block.lines:
            if line.startswith("export "):
                name, _, value = line.removeprefix("export ").partition("=")
                os.environ[name] = os.path.expandvars(value)
            elif line.startswith("cp "):
                subprocess.run(shlex.split(line), check=True)
            elif line.startswith(_COMMAND):
                print(f">>> {line}", flush=True)
                if status := _run(arguments(line)):
                    print(f"<<< {status}", flush=True)
                    return status
    return 0


def _run(words: list[str]) -> int:
    from core.cli.app import main  # after the page has said where its extensions lie
    from core.store.database import Store

    if {"RUN", "TRIAL", "OTHER"} & set(words):
        with Store().read() as cursor:
            (run,) = cursor.execute("SELECT run_id FROM runs ORDER BY created_at DESC LIMIT 1").fetchone()
            conversations = cursor.execute(
                "SELECT trial_id FROM trials JOIN runs USING (run_id) WHERE source = 'local' "
                "AND end_reason IS NOT NULL ORDER BY created_at DESC, trial_id LIMIT 2"
            ).fetchall()
        values = {
            "RUN": run,
            **dict(zip(("TRIAL", "OTHER"), [trial_id for (trial_id,) in conversations], strict=False)),
        }
        words = [values.get(word, word) for word in words]
    return main(words)


if __name__ == "__main__":
    sys.exit(run_page(Path(sys.argv[1])))
