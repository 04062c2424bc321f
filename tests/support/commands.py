"""Commands of ``python -m core`` in one process of their own, one after the other: each process takes seconds to begin.

What is looked for once in a process, as extensions are, is looked for there.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout

from core import paths


def in_turn(environment: Mapping[str, str], *commands: Sequence[str]) -> list[subprocess.CompletedProcess[str]]:
    """Return what each command said; all of them have to succeed."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.commands", json.dumps(commands)],
        cwd=paths.ROOT,
        env=dict(environment),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    outcomes = [subprocess.CompletedProcess(*json.loads(line)) for line in done.stdout.splitlines()]
    assert [one.returncode for one in outcomes] == [0] * len(commands), outcomes
    return outcomes


def _main(commands: list[list[str]]) -> None:
    from core.cli.app import main

    for arguments in commands:
        with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
            status = main(arguments)
        print(json.dumps([arguments, status, out.getvalue(), err.getvalue()]), flush=True)


if __name__ == "__main__":
    _main(json.loads(sys.argv[1]))
