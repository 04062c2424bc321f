"""Downloads one file over HTTP, with a size limit, completely or not at all."""

from __future__ import annotations

import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from core import __version__
from core.errors import AnamnesisError, UsageError

_BLOCK = 1 << 18
_TIMEOUT_S = 60.0
_REPOSITORY = re.compile(r"https://github\.com/([\w.-]+)/([\w.-]+?)(?:\.git)?/?")

OnBytes = Callable[[int, int | None], None]
"""Called with (bytes so far, total bytes if the server sends them)."""


def is_url(text: str) -> bool:
    return re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*://", text) is not None


def archive_url(url: str) -> str:
    """Return the URL of the archive of a repository's newest state if ``url`` is its page on GitHub, else ``url``."""
    match = _REPOSITORY.fullmatch(url)
    return f"https://github.com/{match[1]}/{match[2]}/archive/HEAD.zip" if match else url


@contextmanager
def downloaded(url: str, limit: int, on_bytes: OnBytes = lambda done, total: None) -> Iterator[Path]:
    """Yield a temporary file with the contents of ``url``, at most ``limit`` bytes.

    Raises ``UsageError`` if the URL is not http(s), ``AnamnesisError`` if the server cannot be reached, refuses, sends
    too much, or closes the connection early.
    """
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise UsageError(f"{url} is no address to download from: it must begin with https:// or http://.")
    with TemporaryDirectory(prefix="anamnesis-") as folder:
        path = Path(folder) / (Path(urlsplit(url).path).name or "download")
        try:
            _fetch(url, path, limit, on_bytes)
        except urllib.error.HTTPError as error:
            raise AnamnesisError(
                f"{url} cannot be downloaded: the server answers {error.code} {error.reason}."
            ) from error
        except http.client.IncompleteRead as error:
            raise AnamnesisError(f"The download of {url} broke off: try again; nothing was imported.") from error
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise AnamnesisError(
                f"{url} cannot be downloaded ({reason}): check the address and the network."
            ) from error
        yield path


def _fetch(url: str, path: Path, limit: int, on_bytes: OnBytes) -> None:
    request = urllib.request.Request(url, headers={"User-Agent": f"anamnesis/{__version__}"})
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response, path.open("wb") as file:
        length = response.headers.get("Content-Length", "")
        total = int(length) if length.isdigit() else None
        _refuse_if_large(url, total or 0, limit)
        done = 0
        while block := response.read(_BLOCK):
            done += file.write(block)
            _refuse_if_large(url, done, limit)
            on_bytes(done, total)
    if total is not None and done != total:
        raise AnamnesisError(
            f"The download of {url} broke off after {done:,} of {total:,} bytes: try again; nothing was imported."
        )


def _refuse_if_large(url: str, size: int, limit: int) -> None:
    if size > limit:
        raise AnamnesisError(
            f"{url} sends more than {limit / 1e9:g} GB: nothing was imported. "
            "If you trust it, allow more with --max-gb."
        )
