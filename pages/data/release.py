"""Brings in what the authors of a framework released: by path or upload, in the background, and says what came in."""

import streamlit as st

from core.datasets.archive import Limits
from core.errors import AnamnesisError
from core.frameworks.base import frameworks
from core.frameworks.release import Release
from core.jobs.background import begin_import, importing
from core.jobs.release.importing import ImportReport, report_lines
from core.store.database import Store
from pages.data.importing import ask_file
from pages.kit.controls import choose
from pages.kit.jobs import draw_work
from pages.kit.look import plain
from pages.kit.names import model_name
from pages.kit.navigation import link
from pages.kit.visitor import only

_KINDS = ["zip", "tar", "gz", "tgz", "xz", "txz", "bz2"]
_LIMITS = Limits(way_out="Unpack it yourself, and give the path of its folder.")
_OPEN = "release"
"""Where the address says that this is unfolded."""


def draw_release() -> None:
    """Draw the import of a release, folded up; while one is under way, how far it is."""
    releases = (known.publication.release for known in frameworks().values())
    known = {release.name: release for release in releases if release}
    busy = next((name for name, one in known.items() if (work := importing(Store(), one)) and work.running), None)
    several = len(known) > 1
    box = st.expander(
        "Import conversations that authors released" if several else f"Import {next(iter(known.values())).about}",
        icon=":material/inventory_2:",
        on_change="rerun",
        key="data_release",
        expanded=busy is not None or _OPEN in st.query_params,
    )
    if not box.open:
        return
    with box:
        names = {name: release.about for name, release in known.items()}
        name = busy or (
            choose("Release", list(known), "data_release_of", names=names) if several else next(iter(known))
        )
        release = known[name]
        work = importing(Store(), release)
        if work is not None and work.running:
            words = ("Reading case files", "Unpacking…", "data_release", "files")
            st.fragment(draw_work, run_every=0.5)(work, *words, figures=False, stopped="Nothing is imported then.")
            return
        if work is not None and work.error:
            st.error(plain(work.error), icon=":material/error:")
        if work is not None and work.result is not None:
            draw_report(work.result, release)
        st.caption(
            "Cases, conversations, answers and verdicts become runs like any other. Give a folder or archive (zip, "
            "tar) of their repository. What came in before is kept, and read again where it has changed."
        )
        try:
            file = ask_file("data_release", "An archive of the repository", _KINDS, folders=True)
            if file is not None and st.button(
                "Import it", type="primary", icon=":material/upload_file:", key="data_release_go", **only("edit")
            ):
                begin_import(Store(), release, file.lent, file.name, _LIMITS)
                st.query_params[_OPEN] = "yes"  # open when it is over, too, to say what came in
                st.rerun()
        except AnamnesisError as error:
            st.error(plain(str(error)), icon=":material/error:")


def draw_report(report: ImportReport, release: Release) -> None:
    """Say what an import brought, and lead to where it can be looked at."""
    trials = sum(model.trials for model in report.models)
    models = ", ".join(model_name(model.label) for model in report.models)
    came = f"{trials:,} trials of {plain(models)} came in" if trials else "Everything was here already"
    st.success(f"{came}, on {report.cases:,} cases.", icon=":material/check:")
    with st.container(horizontal=True):
        link("accuracy", "Accuracy", "bar_chart")
        link("transcripts", "Conversations", "forum")
        link("runs", "Runs", "play_arrow")
        link("compare", "Compare two", "compare_arrows")
        link("data", "Its cases", "database", dataset=release.name)
    with st.expander("What was read, and what was not", icon=":material/list:", expanded=bool(report.quarantined)):
        st.markdown("\n".join(f"- {plain(line.strip())}" for line in report_lines(report, release)))
