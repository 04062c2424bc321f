"""How long pages take on the server with the authors' release: with an empty cache, again, and after a changed filter.

Needs a copy of the release (or a part of it) in the folder that ANAMNESIS_CRAFTMD_RELEASE names. Each of the 20 changes
of a page is one not made before, so that only what other states share comes from a cache; no browser is involved.
"""

from __future__ import annotations

import gc
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import streamlit as st
from common import ROOT, authors_release, sized, table
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

CHANGES = sized(20, 1)
Change = dict[str, Any]
"""Key of a control → the value it is given; one or two controls change at a time."""


def accuracy() -> Iterator[Change]:
    """Yield every rule, interval and split; each needs a new computation."""
    splits = ("specialty", "dataset", "dermatology", "single", "all")
    for rule, interval, split in product(("mcq_loose", "mcq_strict"), ("bootstrap", "normal"), splits):
        yield {"acc_split": split, "interval": interval, "rule": rule}


def compare() -> Iterator[Change]:
    """Yield pairs of models under either rule, on all cases and on some specialties."""
    from pages.kit.subjects import Subject

    models = [Subject(model) for model in ("gpt_3_5", "mistral_v1_7b", "mistral_v2_7b")]
    specialties: tuple[list[str], ...] = ([], ["Dermatology"], ["Neurology", "Cardiology"], ["Other"])
    for rule, chosen, first, second in product(("mcq_loose", "mcq_strict"), specialties, models, models):
        if first != second:
            yield {"cmp_first": first, "cmp_second": second, "specialties": chosen, "rule": rule}


def conversations() -> Iterator[Change]:
    """Yield words said by either role, verdicts of arms, specialties and endings."""
    words = ("itchy", "smoke", "fever", "since when", "my mother", "the")
    for text, speaker in product(words, ("doctor", "patient")):
        yield {"conversations_words": text, "conversations_by": speaker}
    for name, verdict in product(("multi_turn:frq", "vignette:mcq"), ("correct", "multiple")):
        yield {"conversations_words": "", "conversations_arm": name, "conversations_verdicts": [verdict]}
    for specialty, end in product(("Dermatology", "Neurology"), ("turn_cap", "no_question")):
        yield {"conversations_verdicts": [], "conversations_specialties": [specialty], "conversations_ends": [end]}


def endings() -> Iterator[Change]:
    arms = [("multi_turn", "mcq"), ("multi_turn", "frq"), ("summarized", "mcq"), ("summarized", "frq")]
    specialties: tuple[list[str], ...] = ([], ["Dermatology"], ["Neurology", "Cardiology"], ["Other"], ["Rheumatology"])
    models: tuple[list[str], ...] = ([], ["mistral_v1_7b"], ["mistral_v1_7b", "mistral_v2_7b"])
    for arm_pair, chosen, names in product((arms[:2], arms[2:]), specialties, models):
        yield {"endings_arms": arm_pair, "specialties": chosen, "models": names}


OPENED = (
    *("home", "live", "debugger", "models", "cases", "runs", "conversations", "accuracy", "compare", "failures"),
    *("history", "care", "rubrics", "graders", "experts", "patients", "memorisation", "endings", "monitoring"),
)
PAGES = {"accuracy": accuracy, "compare": compare, "conversations": conversations, "endings": endings}


def main() -> None:
    release = authors_release()
    if release is None:
        return
    with imported(release):
        visits = [opened(page) for page in OPENED]
        rows = [measured(page, list(changes())) for page, changes in PAGES.items()]
    table("Pages on the server, CPU seconds", ("", "empty cache", "opened again"), visits)
    heads = ("", "first visit s", "changed filter: median s", "CPU s", "longest s", "largest table, rows")
    table(f"Pages on the server, {CHANGES} changed filters each", heads, rows)


@contextmanager
def imported(release: Path) -> Iterator[None]:
    from core.frameworks.craftmd.release import RELEASE
    from core.jobs.release.importing import import_release
    from core.measures.measuring import measure_trials
    from core.measures.registry import measures
    from core.store.database import Store

    with tempfile.TemporaryDirectory() as folder:
        os.environ["ANAMNESIS_DB"] = str(Path(folder) / "anamnesis.duckdb")
        layout = RELEASE.find(release, str(release))
        import_release(Store(), layout, list(layout.models))
        measure_trials(Store(), measures().values())  # otherwise in the background of the first pages
        yield


def session(page: str) -> AppTest:
    """Return a new session that will open a page, or a part of one."""
    from pages.kit.navigation import PARTS

    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=300)
    name, part = PARTS.get(page, (page, {}))
    for key, value in part.items():
        app.query_params[key] = value
    app._page_hash = calc_hash(name)
    return app


def opened(page: str) -> tuple[str, ...]:
    """Open a page twice after its modules are loaded, and return its line of the table."""
    session(page).run()  # loads modules, and makes what is stored next to the database
    gc.freeze()  # as the server does after its imports
    st.cache_resource.clear()
    st.cache_data.clear()
    busy = []
    for _ in range(2):
        cpu = time.process_time()
        session(page).run()
        busy.append(f"{time.process_time() - cpu:.2f}")
    return page, *busy


def measured(page: str, changes: Sequence[Change]) -> tuple[str, ...]:
    """Open a page, change its filters, and return its line of the table."""
    app = session(page)
    start = time.perf_counter()
    app.run()
    first = time.perf_counter() - start
    taken: list[float] = []
    busy: list[float] = []
    rows = 0
    for change in changes[:: max(1, len(changes) // CHANGES)][:CHANGES]:
        for key, value in change.items():
            app.session_state[key] = value
        start, cpu = time.perf_counter(), time.process_time()
        app.run()
        taken.append(time.perf_counter() - start)
        busy.append(time.process_time() - cpu)
        if app.exception:
            raise SystemExit(f"{page} failed at {change}: {app.exception[0].value}")
        rows = max([rows, *(len(frame.value) for frame in app.dataframe)])
    medians = (f"{statistics.median(seconds):.2f}" for seconds in (taken, busy))
    return page, f"{first:.2f}", *medians, f"{max(taken):.2f}", f"{rows:,}"


if __name__ == "__main__":
    main()
