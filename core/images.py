"""Pictures that belong to cases: kept by their contents' hash, read from local files only, never fetched.

Source: Johri et al. 2025, Methods (NEJM Image Challenge): the doctor alone is shown the picture.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from core import paths

SUFFIXES = {"image/png": ".png", "image/jpeg": ".jpg", "image/webp": ".webp", "image/gif": ".gif"}
"""The types of picture that models take, with the ending of their files here."""


class Image(BaseModel):
    """One picture of a case.

    ``sha256`` is the hash of the file's bytes, ``media_type`` such as ``image/png``, ``size`` in bytes, ``name`` what
    the file was called where it came from. A picture that is only known by its address has ``url`` and no hash: the
    address is kept as text and never fetched.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    sha256: str = ""
    media_type: str = ""
    size: int = 0
    name: str = ""
    url: str = ""

    @property
    def local(self) -> bool:
        """Whether the picture's file was brought along."""
        return bool(self.sha256)

    @property
    def path(self) -> Path:
        """Where the file lies, if it is still there."""
        return folder() / f"{self.sha256}{SUFFIXES.get(self.media_type, '')}"


def folder() -> Path:
    """Return where the pictures of imported cases lie, each under its hash."""
    return paths.local_folder() / "images"
