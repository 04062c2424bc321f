"""Asks for a case (chosen or pasted), a cast and the arms, and starts every arm of the case by one button."""

import hashlib

import streamlit as st

from core.agents.calls import Voice
from core.agents.sections_model import SplitByModel, split_by_model
from core.case import SPECIALTIES, Case
from core.datasets.library import DATASET as LIBRARY
from core.datasets.select import answers_of, datasets
from core.debugger.paste import Pasted, case_of, read_pasted
from core.debugger.paste_layouts import ROWS_OF
from core.debugger.run import start_bench
from core.errors import AnamnesisError, UsageError
from core.events import FORMATS, QUESTION_TYPES
from core.frameworks.base import ALL_ARMS, Arm, Campaign, framework
from core.frameworks.casting import CastNames
from core.jobs.estimate import estimate
from core.jobs.plan import in_full, remarks_of
from core.prompts import PromptPack
from core.sections import VignetteSection, sections_of
from pages.parts.ask_model import draw_question
from pages.parts.case_pictures import draw_pictures_folded
from pages.parts.debug_runs import adopt
from pages.parts.look import FORMAT, QUESTION_TYPE, plain
from pages.parts.setup import (
    Seats,
    ask_address,
    ask_case,
    ask_pack,
    ask_persona,
    ask_pictures,
    ask_seat,
    registry,
    seat_problem,
)


def ask_and_run() -> None:
    """Draw case, cast and settings, and the button that runs every arm."""
    case = ask_bench_case()
    names = _ask_cast()
    with st.expander("More settings", icon=":material/tune:"):
        campaign, arms, address = _ask_settings(case, names)
    problem = seat_problem(Seats(names, address))
    if problem is None and not arms:
        problem = "Choose at least one format and one question type under More settings."
    if problem:
        st.warning(plain(problem), icon=":material/key:")
    with st.container(horizontal=True, vertical_alignment="center"):
        label = "Run every arm" if arms == ALL_ARMS else "Run the chosen arms"
        pressed = st.button(
            label, type="primary", icon=":material/play_arrow:", key="debug_run", disabled=bool(problem or not campaign)
        )
        if campaign is not None and problem is None:
            st.markdown(f":gray[{_size(campaign)}]")
    if pressed and campaign is not None:
        _start(campaign)


def _ask_cast() -> CastNames:
    chosen: dict[str, str] = {}
    for roles in (("doctor", "patient"), ("grader", "summariser")):
        for column, role in zip(st.columns(2), roles, strict=True):
            with column:
                chosen[role] = ask_seat("debug", role, beside=chosen.get("doctor", ""))
    return CastNames(**chosen)


def _ask_settings(case: Case | None, names: CastNames) -> tuple[Campaign | None, tuple[Arm, ...], str | None]:
    left, right = st.columns(2, gap="large")
    with left:
        formats = st.pills(
            "Formats", FORMATS, selection_mode="multi", default=list(FORMATS), format_func=FORMAT.__getitem__,
            key="debug_formats", persist_state="session", wrap=True,
            help="What the doctor is shown before the question.",
        )  # fmt: skip
        types = st.pills(
            "Question types", QUESTION_TYPES, selection_mode="multi", default=list(QUESTION_TYPES),
            format_func=QUESTION_TYPE.__getitem__, key="debug_types", persist_state="session", wrap=True,
            help="Many choices: every answer of the case's data set; for a pasted case, the library's and its own.",
        )  # fmt: skip
        numbers = st.columns(3)
        trials = numbers[0].number_input(
            "Trials", 1, 20, 3, key="debug_trials", persist_state="session", help="Repetitions, each with its own seed."
        )
        seed = numbers[1].number_input(
            "Seed", 0, 2**31 - 1, 20, key="debug_seed", persist_state="session", help="Another seed, another wording."
        )
        cap = numbers[2].number_input(
            "Cap of messages", 4, 200, 30, key="debug_cap", persist_state="session",
            help="The doctor's prompt counts as one.",
        )  # fmt: skip
    with right:
        persona = ask_persona("debug")
        images = ask_pictures("debug", [names.doctor], [case] if case else [])
        prompts = ask_pack("debug")
        address = ask_address("debug")
        probe = st.toggle(
            "Ask the doctor's belief after every reply", key="debug_probe", persist_state="session",
            help="A silent question to the doctor's model, outside the dialogue, with a cost of its own. The "
            "reference doctor shows its belief anyway.",
        )  # fmt: skip
    arms = tuple((f, q) for f in FORMATS for q in QUESTION_TYPES if f in formats and q in types)
    if case is None or not arms:
        return None, arms, address
    settings = framework().read_settings(
        {"max_messages": int(cap), "base_url": address, "persona": str(persona), "probe": probe, "images": images}
    )
    campaign = Campaign(
        names=names, cases=(case,), case_set=case.case_key.replace("/", ":", 1), arms=arms,
        many_choices=_many_choices(case), trials=int(trials), seed=int(seed), prompts=prompts, settings=settings,
    )  # fmt: skip
    return campaign, arms, address


def _many_choices(case: Case) -> tuple[str, ...]:
    """Return the choices of the arm with many: a pasted case has no data set, so the library's stand in for it."""
    data_set = case.case_key.partition("/")[0]
    return answers_of(data_set) if data_set in datasets() else (*answers_of(LIBRARY), case.answer)


def _size(campaign: Campaign) -> str:
    """Return what a run will take, in words."""
    trials = "1 trial" if campaign.trials == 1 else f"{campaign.trials} trials"
    words = f"{len(campaign.arms)} arms × {trials}"
    try:
        full = in_full(campaign, registry())
        size = estimate(full, registry(), 8)
    except AnamnesisError:
        return words
    marks = "".join(f" Mind that {plain(mark)}." for mark in remarks_of(full))
    return f"{words}. {plain(size.in_words)}{marks}"


def _start(campaign: Campaign) -> None:
    try:
        adopt(start_bench(campaign))
    except AnamnesisError as error:
        st.error(plain(str(error)))
        return
    st.rerun()


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
        help=f"In any usual layout, or a row of a file as JSON or CSV ({', '.join(ROWS_OF)}). All can be edited below.",
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

    made = draw_question("debug_sections", "Split with the model", ask, vignette)  # type: ignore[arg-type]
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
