"""Runs a server on behalf of an owner process, and ends it when the owner ends for any reason.

Started as ``python -I supervise.py OWNER_PID COMMAND…`` with the owner's pipe as standard input: when the pipe closes,
the owner has ended or wants the server to end. Standard library only, since it is run by its path.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable

_POLL_S = 0.5
_GRACE_S = 5.0
_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> int:
    """Run the command until it ends or the owner does; return its exit status."""
    owner, command = int(arguments[0]), arguments[1:]
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=_die_with_parent())
    try:
        while child.poll() is None and _owner_lives(owner):
            pass
    finally:
        # end the process group of the server, first with SIGTERM, then with SIGKILL
        if _signal_group(child.pid, signal.SIGTERM):
            deadline = time.monotonic() + _GRACE_S
            while time.monotonic() < deadline and child.poll() is None:
                time.sleep(0.05)
            _signal_group(child.pid, signal.SIGKILL)
        child.wait()
    return child.returncode


def _owner_lives(owner: int) -> bool:
    """Wait a moment and check the pipe; also check the process id, because a fork of the owner may hold the pipe."""
    readable, _, _ = select.select([sys.stdin], [], [], _POLL_S)
    closed = bool(readable) and not os.read(sys.stdin.fileno(), 1)
    return not closed and os.getppid() == owner


def _signal_group(group: int, number: signal.Signals) -> bool:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True


def _die_with_parent() -> Callable[[], object] | None:
    """Ask Linux to kill the server if this supervisor is killed."""
    if not sys.platform.startswith("linux"):
        return None
    prctl, supervisor = ctypes.CDLL(None, use_errno=True).prctl, os.getpid()

    def tie() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:  # the supervisor was killed before prctl took effect
            os.kill(os.getpid(), signal.SIGKILL)

    return tie


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
