"""Asks for a case (chosen or pasted), a cast and the arms, and starts every arm of the case by one button."""

import hashlib
from contextlib import suppress
from dataclasses import replace

import streamlit as st

from core.agents.sections_model import SplitByModel, split_by_model
from core.case import SPECIALTIES, Case
from core.datasets.library import DATASET as LIBRARY
from core.datasets.select import choices_of, datasets
from core.debugger.paste import LONGEST_TITLE, case_of, read_pasted
from core.debugger.run import CALLS_AT_ONCE, start_bench
from core.debugger.stored import set_apart
from core.errors import AnamnesisError, UsageError
from core.frameworks.base import ALL_ARMS, Campaign, framework, paper_arms, read_settings
from core.frameworks.casting import CastNames, is_model
from core.jobs.estimate import estimate
from core.jobs.plan import in_full, remarks_of
from core.text.sections import sections_of
from pages.debugger.matrix import adopt
from pages.kit.case.pictures import draw_pictures_folded
from pages.kit.controls import choose
from pages.kit.jobs import draw_question
from pages.kit.look import SECTION, counted, faults_said, plain
from pages.kit.seats import (
    ask_address,
    ask_arms,
    ask_case,
    ask_pack,
    ask_persona,
    ask_pictures,
    ask_seat,
    registry,
    seat_problem,
)
from pages.kit.visitor import only

_read = st.cache_data(max_entries=16, show_spinner=False)(read_pasted)
_FEW = tuple(arm for arm in paper_arms(framework()) if arm[0] == "multi_turn")
"""Arms that a model is asked in at first: its conversation, as the publication asks after it."""
_SIZES = {"few": f"Conversation: {len(_FEW)} arms", "all": f"Every arm: {len(ALL_ARMS)}"}
_SOURCES = {"choose": "Library and imports", "paste": "Paste a vignette"}
_PLACEHOLDER = "A 54-year-old woman has had … What is the most likely diagnosis?\nA. …\nB. …\nC. …\nD. …\nAnswer: B"


def ask_and_run() -> None:
    """Draw case, cast and settings, and the button that runs every arm."""
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
    # what a model is asked costs: it is asked in a few arms first
    few = any(map(is_model, filter(None, names.values()))) and (
        choose(
            "Arms",
            list(_SIZES),
            "debug_size",
            names=_SIZES,
            shape="segments",
            help="What a model is asked costs. Either can be narrowed or widened under More settings.",
        )
        == "few"
    )
    with st.expander("More settings", icon=":material/tune:"):
        campaign = _ask_settings(case, names, few=few)
    problem = seat_problem(names, campaign.settings.base_url)
    if problem is None and not campaign.arms:
        problem = "Choose at least one format and one question type under More settings."
    if problem:
        st.warning(plain(problem), icon=":material/key:")
    ready = problem is None and case is not None
    with st.container(horizontal=True, vertical_alignment="center"):
        label = "Run every arm" if campaign.arms == ALL_ARMS else "Run the chosen arms"
        pressed = st.button(
            label, type="primary", icon=":material/play_arrow:", key="debug_run", **only("run", disabled=not ready)
        )
        if ready:
            words = f"{counted(len(campaign.arms), 'arm')} × {counted(campaign.trials, 'trial')}"
            with suppress(AnamnesisError):  # what is wrong is said when it is started
                full = in_full(campaign, registry())
                words += f". {plain(estimate(full, registry(), CALLS_AT_ONCE, arms_side_by_side=True).in_words)}"
                words += "".join(f" Note that {plain(mark)}." for mark in remarks_of(full))
            st.markdown(f":gray[{words}]")
    if pressed and ready:
        with faults_said():
            adopt(start_bench(campaign))


def _ask_settings(case: Case | None, names: CastNames, *, few: bool) -> Campaign:
    """Ask for all else there is to choose; returns what is to be run, of no case while there is none yet."""
    left, right = st.columns(2, gap="large")
    with left:
        # controls of few arms are others than those of all: each begins with what is usual for it
        arms = ask_arms("debug_few" if few else "debug", framework(), _FEW if few else ())
        numbers = st.columns(3)
        trials = numbers[0].number_input(
            "Trials", 1, 20, 3, key="debug_trials", persist_state="session", help="Repetitions, each with its own seed."
        )
        seed = numbers[1].number_input(
            "Seed", 0, 2**31 - 1, 20, key="debug_seed", persist_state="session", help="Another seed, another wording."
        )
        cap = numbers[2].number_input(
            "Cap of messages",
            4,
            200,
            30,
            key="debug_cap",
            persist_state="session",
            help="The doctor's prompt counts as one.",
        )
    with right:
        persona = ask_persona("debug")
        images = ask_pictures("debug", [names.doctor], [case] if case else [])
        prompts = ask_pack("debug")
        address = ask_address("debug")
        probe = st.toggle(
            "Ask the doctor's belief after every reply",
            key="debug_probe",
            persist_state="session",
            help="A silent question to the doctor's model, outside the dialogue, with a cost of its own. The "
            "reference doctor shows its belief anyway.",
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
        # a pasted case has no data set, so the library's answers stand in for it
        many_choices=choices_of(data_set)
        if case is None or data_set in datasets()
        else (*choices_of(LIBRARY), case.answer),
        trials=int(trials),
        seed=int(seed),
        prompts=prompts,
        settings=settings,
    )


def ask_pasted() -> Case | None:
    """Ask for a pasted case, whose parts can be edited; ``None`` until there is one, with what is missing said."""
    text = st.text_area(
        "Vignette, question, choices and answer",
        key="debug_paste",
        height=180,
        placeholder=_PLACEHOLDER,
        persist_state="session",
        help="Choices as A–J or 1–9, one a line or in one line, right after the question; the answer after “Answer:”. "
        "Or a row of a data set as JSON, or as CSV with its header, in any format that can be imported.",
    )
    if not (text or "").strip():
        st.caption("Paste a vignette, then press Ctrl+Enter: what is recognised appears below and can be corrected.")
        return None
    pasted = _read(text)
    about = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:8]
    key = f"debug_paste_{{}}_{about}".format
    with st.container(border=True):
        st.markdown("**Recognised**", help="Correct whatever was read wrongly: the run uses what stands here.")
        for note in pasted.notes:
            st.markdown(f":orange[:material/info:] {plain(note)}")
        vignette = st.text_area(
            "Vignette",
            pasted.vignette,
            key=key("vignette"),
            height=150,
            persist_state="session",
            help="What the patient holds. The question never belongs here.",
        )
        question = st.text_input("Question", pasted.question, key=key("question"), persist_state="session")
        left, right = st.columns(2)
        choices = left.text_area(
            "Choices, one a line", "\n".join(pasted.choices), key=key("choices"), height=130, persist_state="session"
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
            tuple(dict.fromkeys((*SPECIALTIES, pasted.specialty))),
            key("specialty"),
            default=pasted.specialty,
            where=right,
            bound=False,
            persist=True,
            help="The doctor is told its specialty; none is named for Other.",
        )
        titled = st.empty()
        _draw_sections(vignette or "", about)
        try:
            edited = replace(
                pasted,
                specialty=specialty,
                answer=answer or "",
                vignette=vignette or "",
                question=question or "",
                choices=tuple((choices or "").splitlines()),
            )
            title = titled.text_input(
                "Title",
                key=key("title"),
                max_chars=LONGEST_TITLE,
                placeholder=case_of(edited).case_key.partition("/")[2],
                persist_state="session",
                help="What the case is called from now on, on every page.",
            )
            return set_apart(case_of(edited, title or ""))
        except UsageError as error:
            st.warning(plain(str(error)), icon=":material/edit:")
            return None


def _draw_sections(vignette: str, about: str) -> None:
    """Draw the vignette's sentences by section, by rule or as a model sorts them; what it invents is counted."""
    found = sections_of(vignette)
    if not found:
        return

    with st.expander(f"Sections of the vignette ({len({section for section, _ in found})})"):
        if st.toggle("Split with a model", key=f"debug_sections_{about}"):
            made = draw_question(
                "debug_sections",
                "Split with the model",
                lambda voice, pack: split_by_model(voice, pack, vignette),
                vignette,
            )
            if isinstance(made, SplitByModel):
                st.caption(
                    f"Rejected because it is not in the vignette: {made.invented}. Sorted by rule: {made.by_rule}."
                )
                found = made.sections or found
        for section in dict.fromkeys(section for section, _ in found):
            text = " ".join(sentence for held, sentence in found if held == section)
            st.markdown(f"**{SECTION[section]}**  \n{plain(text)}")
