"""Asks for the case to debug: one of the library or an import, or a pasted vignette whose parts can be edited."""

import hashlib

import streamlit as st

from core.agents.calls import Voice
from core.agents.sections_model import SplitByModel, split_by_model
from core.case import SPECIALTIES, Case
from core.debugger.paste import Pasted, case_of, read_pasted
from core.errors import UsageError
from core.prompts import PromptPack
from core.sections import VignetteSection, sections_of
from pages.parts.case_pictures import draw_pictures_folded
from pages.parts.debug_aside import draw_aside
from pages.parts.look import plain
from pages.parts.setup import ask_case

_SOURCES = {"choose": "Library and imports", "paste": "Paste a vignette"}
SECTION: dict[VignetteSection, str] = {
    "demographics": "Age and sex", "complaint": "Complaint and present illness", "past_history": "Past history",
    "medication": "Medicines", "family_history": "Family history", "social_history": "Social history",
    "vital_signs": "Vital signs", "examination": "Examination", "laboratory": "Laboratory", "imaging": "Imaging",
    "other_tests": "Other tests",
}  # fmt: skip
_PLACEHOLDER = (
    "A 54-year-old woman has had … What is the most likely diagnosis?\n"
    "A. …\nB. …\nC. …\nD. …\nAnswer: B"
)  # fmt: skip


def ask_bench_case() -> Case | None:
    """Ask for a case; ``None`` until there is one, with what is missing said."""
    source = st.segmented_control(
        "Case from", list(_SOURCES), default="choose", required=True, format_func=_SOURCES.__getitem__,
        key="debug_source", bind="query-params",
    )  # fmt: skip
    if source == "paste":
        return _ask_pasted()
    case = ask_case("debug")
    if case is not None:
        draw_pictures_folded(case, "debug")
    return case


def _ask_pasted() -> Case | None:
    text = st.text_area(
        "Vignette, question, choices and answer", key="debug_paste", height=180, placeholder=_PLACEHOLDER,
        persist_state="session",
        help="In any usual layout, or a row of a CRAFT-MD or MedQA file as JSON or CSV. All can be edited below.",
    )  # fmt: skip
    if not (text or "").strip():
        st.caption("Paste a vignette, then press Ctrl+Enter: what is recognised appears below and can be corrected.")
        return None
    pasted = _read(text)
    with st.container(border=True):
        st.markdown("**Recognised**", help="Correct whatever was read wrongly: the run uses what stands here.")
        for note in pasted.notes:
            st.markdown(f":orange[:material/info:] {plain(note)}")
        return _edited(pasted, hashlib.sha256(text.encode(errors="replace")).hexdigest()[:8])


def _edited(pasted: Pasted, text_key: str) -> Case | None:
    """Let the parts be edited and make a case of them."""

    def key(name: str) -> str:
        return f"debug_paste_{name}_{text_key}"

    vignette = st.text_area(
        "Vignette", pasted.vignette, key=key("vignette"), height=150, persist_state="session",
        help="What the patient holds. The question never belongs here.",
    )  # fmt: skip
    question = st.text_input("Question", pasted.question, key=key("question"), persist_state="session")
    left, right = st.columns(2)
    with left:
        choices = st.text_area(
            "Choices, one a line", "\n".join(pasted.choices), key=key("choices"), height=130, persist_state="session"
        )
    with right:
        answer = st.text_input(
            "Right answer", pasted.answer or "", key=key("answer"), persist_state="session",
            help="Its name, or the letter of a choice.",
        )  # fmt: skip
        place = SPECIALTIES.index(pasted.specialty) if pasted.specialty in SPECIALTIES else len(SPECIALTIES) - 1
        specialty = st.selectbox(
            "Specialty", SPECIALTIES, place, key=key("specialty"), persist_state="session",
            help="The doctor is told its specialty; none is named for Other.",
        )  # fmt: skip
    _draw_sections(vignette or "", text_key)
    try:
        return case_of(
            pasted, specialty, answer=answer or "", vignette=vignette or "", question=question or "",
            choices=(choices or "").splitlines(),
        )  # fmt: skip
    except UsageError as error:
        st.warning(plain(str(error)), icon=":material/edit:")
        return None


def _draw_sections(vignette: str, text_key: str) -> None:
    """Draw the vignette's sentences by section."""
    found = sections_of(vignette)
    if not found:
        return
    with st.expander(f"Sections of the vignette ({len({section for section, _ in found})})"):
        if st.toggle("Split with a model", key=f"debug_sections_{text_key}"):
            found = _by_model(vignette) or found
        draw_sections(found)


def _by_model(vignette: str) -> tuple[tuple[VignetteSection, str], ...] | None:
    """Have a model sort the vignette's sentences; what it invents is left out and counted."""

    def ask(voice: Voice, pack: PromptPack) -> object:
        return split_by_model(voice, pack, vignette)

    made = draw_aside("debug_sections", "Split with the model", ask, vignette)  # type: ignore[arg-type]
    if not isinstance(made, SplitByModel):
        return None
    st.caption(f"Rejected because it is not in the vignette: {made.invented}. Sorted by rule: {made.by_rule}.")
    return made.sections


def draw_sections(found: tuple[tuple[VignetteSection, str], ...]) -> None:
    """Draw sentences under the names of their sections."""
    for section in dict.fromkeys(section for section, _ in found):
        text = " ".join(sentence for held, sentence in found if held == section)
        st.markdown(f"**{SECTION[section]}**  \n{plain(text)}")


@st.cache_data(max_entries=16, show_spinner=False)
def _read(text: str) -> Pasted:
    return read_pasted(text)
