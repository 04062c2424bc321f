"""What the experts of the authors' release said, beside what the paper prints."""

import streamlit as st

from core.errors import AnamnesisError
from core.measures.experts.workbooks import Imported, import_release_annotations
from core.store.database import Store
from pages.parts.experts_data import RELEASE, Figures, figures_of, release_grader, release_is_here
from pages.parts.experts_figures import draw_figures
from pages.parts.experts_tables import PRINTED_GRADER, printed_row, printed_shares, printed_tests
from pages.parts.figure_controls import IMPORT_COMMAND
from pages.parts.look import plain

_PATIENT = "patient_ai_conversations_with_medical_language"


def draw_release() -> None:
    """Draw the release's figures with the printed ones beside them, or how to get them."""
    if not release_is_here():
        st.info(
            "The experts’ workbooks come with the authors’ public release: import it with "
            f"`{IMPORT_COMMAND}`, where PATH is a folder or archive of their repository.",
            icon=":material/download:",
        )
        return
    found = figures_of(RELEASE)
    st.caption(
        "180 conversations of four models, judged by two annotators, a third of them by both, ties broken by a third "
        "(Johri et al. 2025). Printed percentages are truncated, not rounded."
    )
    draw_figures(found, RELEASE, printed_shares(), printed_tests())
    _draw_patient(found)
    _draw_grader()
    _offer_import()


def _draw_patient(found: Figures) -> None:
    terms = [one for one in found.shares if one.question == "medical_terms"]
    yes, n = sum(one.yes for one in terms), sum(one.n for one in terms)
    printed = printed_row(_PATIENT)["value"]
    st.markdown(
        f"**The patient** used medical terms in {yes} of {n} conversations ({100 * yes / max(1, n):.2f} %; printed "
        f"{plain(printed)} %)."
    )


def _draw_grader() -> None:
    found, printed = release_grader(), printed_row(PRINTED_GRADER)
    if found is None:
        return
    words = f"**The grader** agrees with the experts in {printed['value']} % as printed, over {printed['n']} cases. "
    if found.found is None:
        words += f"{found.lacking} The experts’ counts are here for {found.counted} of {found.annotated} cases."
    else:
        words += (
            f"Recomputed: {100 * found.found.agreement:.2f} % over {found.found.n_cases} cases with a count; the same "
            f"count in {100 * found.found.whole:.1f} %, Spearman’s ρ {found.found.spearman:.3f}."
        )
    st.markdown(words)


def _offer_import() -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        if st.button("Take these judgements in as annotations", icon=":material/playlist_add:"):
            try:
                _tell(import_release_annotations(Store()))
            except AnamnesisError as error:
                st.error(plain(str(error)))
        st.caption("They then hang on the stored conversations with the same words, and are exported with all others.")


def _tell(found: Imported) -> None:
    st.success(
        f"{found.added:,} judgements of {found.items} conversations came in, {found.known:,} were here already; "
        f"{found.matched} of the conversations are stored here."
    )
