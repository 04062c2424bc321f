"""Finds the Chrome or Chromium of this machine, which draws PDF, SVG and PNG files."""

from __future__ import annotations

import os
import shutil

HOW_TO_INSTALL = (
    "install Chrome or Chromium (Debian, Ubuntu: apt install chromium; elsewhere: .venv/bin/plotly_get_chrome) or name "
    "its program in CHROMIUM"
)


def find_browser() -> str | None:
    """Return the program named in ``CHROMIUM``, else an installed Chrome, Chromium or relative, else ``None``."""
    program = os.environ.get("CHROMIUM")
    if not program:
        from choreographer.browsers.chromium import Chromium  # imported here because it takes 0.2 s

        program = Chromium.find_browser(skip_local=False)
    return shutil.which(program) if program else None
