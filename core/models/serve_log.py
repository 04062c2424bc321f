"""What a model server printed: the last lines are kept, and the telling ones found when it fails."""

from __future__ import annotations

import re
import threading
from collections import deque
from typing import IO

_KEPT_LINES = 400
_ERROR = re.compile(r"^(?:[\w.]*\.)?[A-Z]\w*(?:Error|Exception|Exit|Interrupt)\b: ?")
_NOISE = re.compile(r"^(INFO:|\[transformers\]|Loading |Downloading|\s|Traceback|During handling|The above|$)")
_LENGTH = 400

_HINTS = (
    (re.compile(r"out of memory|OutOfMemory|MemoryError|Cannot allocate", re.I), "free memory or take a smaller model"),
    (re.compile(r"transformers\[serving\]|No module named", re.I), "install the packages of requirements.txt"),
    (
        re.compile(r"gated repo|restricted|401 Client Error|403 Client Error", re.I),
        "accept the model's licence on its page and set HF_TOKEN",
    ),
    (
        re.compile(r"couldn't connect|offline|LocalEntryNotFound|cached files", re.I),
        "check the name, connect to the network or unset HF_HUB_OFFLINE",
    ),
    (
        re.compile(r"not a valid model identifier|Repo id must|Repository Not Found|not a local folder", re.I),
        "check the model's name or folder",
    ),
    (
        re.compile(r"Unrecognized|does not appear to have|safetensors|config\.json|model_type", re.I),
        "check that the folder holds a whole model with its tokenizer",
    ),
)


class ServeLog:
    """The last lines of a stream, read in a thread of its own so that the server never waits for a reader."""

    def __init__(self, stream: IO[str]) -> None:
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._count = 0
        self._reader = threading.Thread(target=self._read, args=(stream,), daemon=True, name="model-server-log")
        self._reader.start()

    def _read(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                self._lines.append(line.rstrip())
                self._count += 1

    def finish(self) -> None:
        """Wait for the last lines of a server that has ended."""
        self._reader.join(timeout=2)

    @property
    def mark(self) -> int:
        """How many lines came so far."""
        return self._count

    def last_words(self, since: int = 0) -> str:
        """Return the line after the mark ``since`` that says what went wrong, as far as one does."""
        new = self._count - since
        return last_words(list(self._lines)[-new:]) if new > 0 else ""


def last_words(lines: list[str]) -> str:
    """Pick the last error among ``lines``, else the last line that is no routine."""
    errors = [line for line in lines if _ERROR.match(line)]
    spoken = errors or [line for line in lines if not _NOISE.match(line)]
    text = _ERROR.sub("", spoken[-1]).strip() if spoken else ""
    text = text or (spoken[-1] if spoken else "")
    return text.rstrip(". ") if len(text) <= _LENGTH else text[: _LENGTH - 1] + "…"


def advice(words: str) -> str:
    """Say what to do about ``words``."""
    for pattern, hint in _HINTS:
        if pattern.search(words):
            return hint
    return "start `transformers serve` with this model by hand to see all it prints"
