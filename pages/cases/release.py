"""Imports a release of a framework’s authors, from a path or an upload, in the background, and reports the result."""

import streamlit as st

from core.datasets.archive import ArchiveLimits
from core.errors import AnamnesisError
from core.frameworks.base import frameworks
from core.frameworks.release import Release
from core.jobs.background import begin_import, importing
from core.jobs.release.importing import ImportReport, report_lines
from core.store.database import Store
from pages.cases.importing import ask_file
from pages.kit.controls import choose
from pages.kit.jobs import draw_work
from pages.kit.look import plain
from pages.kit.names import model_name
from pages.kit.navigation import link
from pages.kit.visitor import only

_KINDS = ["zip", "tar", "gz", "tgz", "xz", "txz", "bz2"]
_LIMITS = ArchiveLimits(way_out="Unpack it yourself, and give the path of its folder.")
_OPEN = "release"
"""URL parameter that opens the form."""


def draw_release() -> None:
    """Draw the import of a release, folded up; draw its progress while an import runs."""
    published = (framework.publication.release for framework in frameworks().values())
    releases = {release.name: release for release in published if release}
    busy = next(
        (name for name, release in releases.items() if (work := importing(Store(), release)) and work.running), None
    )
    several = len(releases) > 1
    box = st.expander(
        "Import conversations that authors released" if several else f"Import {next(iter(releases.values())).about}",
        icon=":material/inventory_2:",
        on_change="rerun",
        key="cases_release",
        expanded=busy is not None or _OPEN in st.query_params,
    )
    if not box.open:
        return
    with box:
        names = {name: release.about for name, release in releases.items()}
        name = busy or (
            choose("Release", list(releases), "cases_release_of", names=names) if several else next(iter(releases))
        )
        release = releases[name]
        work = importing(Store(), release)
        if work is not None and work.running:
            words = ("Reading case files", "Unpacking…", "cases_release", "files")
            st.fragment(draw_work, run_every=0.5)(work, *words, figures=False, stopped="Nothing is imported then.")
            return
        if work is not None and work.error:
            st.error(plain(work.error), icon=":material/error:")
        if work is not None and work.result is not None:
            draw_report(work.result, release)
        st.caption(
            "A folder or archive (zip, tar) of the authors’ repository; its conversations become runs.",
            help="A second import reads only what has changed.",
        )
        try:
            file = ask_file("cases_release", "An archive of the repository", _KINDS, folders=True)
            if file is not None and st.button(
                "Import it", type="primary", icon=":material/upload_file:", key="cases_release_go", **only("run")
            ):
                begin_import(Store(), release, file.on_disk, file.name, _LIMITS)
                st.query_params[_OPEN] = "yes"  # stay open after the import, to show its report
                st.rerun()
        except AnamnesisError as error:
            st.error(plain(str(error)), icon=":material/error:")


def draw_report(report: ImportReport, release: Release) -> None:
    """Draw the result of an import, with links to the pages that show it."""
    trials = sum(model.trials for model in report.models)
    models = ", ".join(model_name(model.label) for model in report.models)
    summary = f"Imported {trials:,} trials of {plain(models)}" if trials else "Already imported"
    st.success(f"{summary}, on {report.cases:,} cases.", icon=":material/check:")
    with st.container(horizontal=True):
        link("accuracy", "Accuracy", "bar_chart")
        link("conversations", "Conversations", "forum", conversations_part="Conversations")
        link("runs", "Runs", "play_arrow")
        link("compare", "Compare two", "compare_arrows")
        link("cases", "Its cases", "database", dataset=release.name)
    with st.expander("Details of the import", icon=":material/list:", expanded=bool(report.quarantined)):
        st.markdown("\n".join(f"- {plain(line.strip())}" for line in report_lines(report, release)))
