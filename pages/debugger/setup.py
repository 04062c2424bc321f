"""The form that starts a run of one case: the case (chosen or pasted), the cast and the arms."""

import hashlib
from contextlib import suppress

import streamlit as st

from core.agents.sections_model import SplitByModel, split_by_model
from core.case import SPECIALTIES, Case
from core.datasets.library import DATASET as LIBRARY
from core.datasets.select import choices_of, datasets
from core.debugger.paste import LONGEST_TITLE, Pasted, case_of, choices_in, read_pasted
from core.debugger.run import CALLS_AT_ONCE, start_bench
from core.debugger.stored import set_apart
from core.errors import AnamnesisError, UsageError
from core.frameworks.base import ALL_ARMS, Campaign, framework, paper_arms, read_settings
from core.frameworks.casting import CastNames
from core.jobs.estimate import estimate
from core.jobs.plan import in_full, remarks_of
from core.text.sections import sections_of
from pages.debugger.matrix import adopt
from pages.kit.case.pictures import draw_pictures_folded
from pages.kit.controls import choose
from pages.kit.jobs import draw_question
from pages.kit.look import SECTION, counted, plain, show_errors
from pages.kit.seats import (
    ask_address,
    ask_arms,
    ask_case,
    ask_pack,
    ask_persona,
    ask_pictures,
    ask_seat,
    plays_persona,
    registry,
    seat_problem,
)
from pages.kit.visitor import draw_button

_PAPER_ARMS = paper_arms(framework())
_SIZES = {"paper": f"Paper’s {len(_PAPER_ARMS)}", "all": f"All {len(ALL_ARMS)}"}
_SOURCES = {"choose": "Library and imports", "paste": "Paste a vignette"}
_PLACEHOLDER = "A 54-year-old woman has had … What is the most likely diagnosis?\nA. …\nB. …\nC. …\nD. …\nAnswer: B"


def ask_and_run() -> None:
    """Draw case, cast, arms and settings, and the button that starts the run."""
    if choose("Case from", list(_SOURCES), "debug_source", names=_SOURCES, shape="segments") == "paste":
        case = ask_pasted()
    else:
        case = ask_case("debug")
        if case is not None:
            draw_pictures_folded(case, "debug")
    chosen: dict[str, str] = {}
    for roles in (("doctor", "patient"), ("grader", "summariser")):
        for column, role in zip(st.columns(2), roles, strict=True):
            with column:
                chosen[role] = ask_seat("debug", role, doctor=chosen.get("doctor", ""))
    names = CastNames(**chosen)
    size = choose(
        "Arms",
        list(_SIZES),
        "debug_size",
        names=_SIZES,
        shape="segments",
        help="An arm is a format with a question type. Choose single ones under More settings.",
    )
    with st.expander("More settings", icon=":material/tune:"):
        campaign = _ask_settings(case, names, every_arm=size == "all")
    problem = seat_problem(names, campaign.settings.base_url)
    if problem is None and not campaign.arms:
        problem = "Choose at least one format and one question type under More settings."
    if problem:
        st.warning(plain(problem), icon=":material/key:")
    why_not = "See the note above." if problem else "" if case else "Choose a case first."
    ready = problem is None and case is not None
    with st.container(horizontal=True, vertical_alignment="center"):
        run = draw_button(
            "Run the case", why_not, type="primary", icon=":material/play_arrow:", key="debug_run", role="run"
        )
        if ready:
            words = f"{counted(len(campaign.arms), 'arm')} × {counted(campaign.trials, 'trial')}"
            with suppress(AnamnesisError):  # the start reports any error
                full = in_full(campaign, registry())
                words += f". {plain(estimate(full, registry(), CALLS_AT_ONCE, arms_side_by_side=True).in_words)}"
                words += "".join(f" Note that {plain(remark)}." for remark in remarks_of(full))
            st.markdown(f":gray[{words}]")
    if run and ready:
        with show_errors():
            adopt(start_bench(campaign))


def _ask_settings(case: Case | None, names: CastNames, *, every_arm: bool) -> Campaign:
    """Ask for all other settings; return the campaign, without a case while none is chosen."""
    left, right = st.columns(2, gap="large")
    with left:
        # the two sizes have separate controls, each with its own default
        arms = ask_arms("debug_all" if every_arm else "debug", framework(), ALL_ARMS if every_arm else _PAPER_ARMS)
        numbers = st.columns(3)
        trials = numbers[0].number_input(
            "Trials", 1, 20, 1, key="debug_trials", persist_state="session", help="Repetitions, each with its own seed."
        )
        seed = numbers[1].number_input(
            "Seed",
            0,
            2**31 - 1,
            20,
            key="debug_seed",
            persist_state="session",
            help="Another seed changes the wording.",
        )
        cap = numbers[2].number_input(
            "Max messages",
            4,
            200,
            30,
            key="debug_cap",
            persist_state="session",
            help="The doctor’s prompt counts as one message.",
        )
    with right:
        persona = ask_persona("debug", plays=plays_persona(framework(), names.doctor, names.patient))
        images = ask_pictures("debug", [names.doctor], [case] if case else [])
        prompts = ask_pack("debug")
        address = ask_address("debug")
        probe = st.toggle(
            "Ask the doctor's belief after every reply",
            key="debug_probe",
            persist_state="session",
            help="An extra request to the doctor’s model, outside the dialogue, at extra cost. The reference doctor "
            "always reports its belief.",
        )
    settings = read_settings(
        framework(),
        {"max_messages": int(cap), "base_url": address, "persona": str(persona), "probe": probe, "images": images},
    )
    data_set = case.case_key.partition("/")[0] if case else LIBRARY
    return Campaign(
        names=names,
        cases=(case,) if case else (),
        case_set=case.case_key.replace("/", ":", 1) if case else "",
        arms=arms,
        # a pasted case has no data set, so the library’s answers are the other choices
        many_choices=choices_of(data_set)
        if case is None or data_set in datasets()
        else (*choices_of(LIBRARY), case.answer),
        trials=int(trials),
        seed=int(seed),
        prompts=prompts,
        settings=settings,
    )


def ask_pasted() -> Case | None:
    """Ask for a pasted case with editable parts; ``None`` with a message while the case is incomplete."""
    text = st.text_area(
        "Vignette, or the whole question",
        key="debug_paste",
        height=180,
        placeholder=_PLACEHOLDER,
        persist_state="session",
        help="A question is split if each choice is a line with its letter.",
    )
    if not (text or "").strip():
        st.caption("Paste a vignette and press Ctrl+Enter. Edit its parts below.")
        return None
    pasted = read_pasted(text)
    text_hash = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:8]
    key = f"debug_paste_{{}}_{text_hash}".format
    with st.container(border=True):
        if pasted.left_out:
            st.markdown(f":orange[:material/info: Left out after the choices: {plain(pasted.left_out)}]")
        vignette = st.text_area(
            "Vignette",
            pasted.vignette,
            key=key("vignette"),
            height=150,
            persist_state="session",
            help="What the patient knows.",
        )
        question = st.text_input("Question", pasted.question, key=key("question"), persist_state="session")
        left, right = st.columns(2)
        choices = left.text_area(
            "Choices, one per line",
            "\n".join(pasted.choices),
            key=key("choices"),
            height=130,
            persist_state="session",
            help="With or without letters. Without choices only free-response arms can be run.",
        )
        answer = right.text_input(
            "Right answer",
            pasted.answer,
            key=key("answer"),
            persist_state="session",
            help="Its name, or the letter of a choice.",
        )
        specialty = choose(
            "Specialty",
            SPECIALTIES,
            key("specialty"),
            default="Other",
            where=right,
            bound=False,
            persist=True,
            help="The doctor’s prompt names the specialty, except Other.",
        )
        title_place = st.empty()
        _draw_sections(vignette or "", text_hash)
        edited = Pasted(vignette or "", question or "", choices_in(choices or ""), answer or "")
        try:
            title = title_place.text_input(
                "Title",
                key=key("title"),
                max_chars=LONGEST_TITLE,
                placeholder=case_of(edited).case_key.partition("/")[2],
                persist_state="session",
                help="The name of the case on every page.",
            )
            return set_apart(case_of(edited, specialty, title or ""))
        except UsageError as error:
            st.warning(plain(str(error)), icon=":material/edit:")
            return None


def _draw_sections(vignette: str, text_hash: str) -> None:
    """Draw the vignette’s sentences by section, sorted by rule or by a model."""
    sentences = sections_of(vignette)
    if not sentences:
        return

    with st.expander(f"Sections of the vignette ({len({section for section, _ in sentences})})"):
        if st.toggle("Split with a model", key=f"debug_sections_{text_hash}"):
            split = draw_question(
                "debug_sections",
                "Split with the model",
                lambda voice, pack: split_by_model(voice, pack, vignette),
                vignette,
            )
            if isinstance(split, SplitByModel):
                st.caption(
                    f"Sentences not in the vignette, rejected: {split.invented}; sorted by rule: {split.by_rule}."
                )
                sentences = split.sections or sentences
        for section in dict.fromkeys(section for section, _ in sentences):
            text = " ".join(sentence for part, sentence in sentences if part == section)
            st.markdown(f"**{SECTION[section]}**  \n{plain(text)}")
