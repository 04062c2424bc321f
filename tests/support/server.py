"""``python -m tests.support.server PORT``: the dashboard of many databases, of which standard input names the next.

It serves what ``python -m core serve`` serves, and answers each line of its input with a line.
"""

from __future__ import annotations

import os
import sys
import threading

import streamlit as st

from pages.kit.server import main
from tests.support.dashboard import SHOWN


def follow() -> None:
    """Show the database of each line, and remember nothing of the one before, until the input ends."""
    for line in sys.stdin:
        os.environ["ANAMNESIS_DB"] = line.rstrip("\n")
        st.cache_data.clear()
        st.cache_resource.clear()
        print(SHOWN, flush=True)
    os._exit(0)  # the process that started this one has ended


if __name__ == "__main__":
    threading.Thread(target=follow, daemon=True).start()
    host = ["--server.address=127.0.0.1", f"--server.port={sys.argv[1]}", "--server.headless=true"]
    main(*host)
