"""Debug one case: ask about it in every format, read all verdicts, requests and replies, edit, and branch."""

import hashlib
from collections.abc import Sequence
from contextlib import suppress

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.agents.sections_model import SplitByModel, split_by_model
from core.case import SPECIALTIES, Case
from core.datasets.library import DATASET as LIBRARY
from core.datasets.select import choices_of, datasets
from core.debugger.paste import LONGEST_TITLE, Pasted, case_of, choices_in, read_pasted
from core.debugger.run import CALLS_AT_ONCE, EDITED, start_bench
from core.debugger.steps import steps_of_trial
from core.debugger.stored import sessions, set_apart
from core.errors import AnamnesisError, UsageError
from core.events import Finished
from core.frameworks.base import ALL_ARMS, Campaign, framework, paper_arms, tested_seat, title_of
from core.frameworks.casting import is_model
from core.jobs.estimate import estimate
from core.jobs.plan import in_full, remarks_of
from core.journal import RunHeader
from core.store.database import Store
from core.store.fold import fold_if_free
from core.store.queries.runs import Run
from core.text.questions import question_kind
from core.text.sections import sections_of
from core.words import ROLE
from pages.debugger.edit import draw_before_after, draw_edit, draw_edit_all
from pages.debugger.matrix import BenchView, adopt, current, draw_matrix, draw_resume, leave
from pages.debugger.step import draw_cell
from pages.kit.cached import ask
from pages.kit.campaigns import draw_label, label_of_run
from pages.kit.case.pictures import draw_pictures_folded
from pages.kit.controls import choose
from pages.kit.jobs import draw_question, draw_reused_replies
from pages.kit.look import ASKS_FOR, SECTION, counted, plain, show_errors, when
from pages.kit.names import model_name
from pages.kit.page import show
from pages.kit.seats import ask_arms, ask_case, ask_cast, ask_pictures, ask_player, case_label, registry
from pages.kit.tables import draw_table
from pages.kit.visitor import draw_button

_QUESTIONS = {"paper": f"As published ({len(paper_arms(framework()))})", "all": f"All ({len(ALL_ARMS)})"}
_SOURCES = {"choose": "Library and imports", "paste": "Paste a vignette"}
_PLACEHOLDER = "A 54-year-old woman has had … What is the most likely diagnosis?\nA. …\nB. …\nC. …\nD. …\nAnswer: B"


def ask_and_run() -> None:
    """Draw case, players, questions and settings, and the button that starts the run."""
    if choose("Case from", list(_SOURCES), "debug_source", names=_SOURCES, shape="segments") == "paste":
        case = ask_pasted()
    else:
        case = ask_case("debug")
        if case is not None:
            draw_pictures_folded(case, "debug")
    columns = st.columns(2)
    questions = choose(
        "Questions",
        list(_QUESTIONS),
        "debug_size",
        names=_QUESTIONS,
        shape="segments",
        help="What is asked about the case: after the whole conversation, its summary or one reply, or from the "
        "vignette; as multiple choice or free response. More settings has each one.",
    )
    with st.expander("More settings", icon=":material/tune:"):
        campaign, problem = _ask_settings(case, columns, all_questions=questions == "all")
    if problem is None and not campaign.arms:
        problem = "Choose at least one format and one question type under More settings."
    if problem:
        st.warning(plain(problem), icon=":material/key:")
    why_not = "See the note above." if problem else "" if case else "Choose a case first."
    with st.container(horizontal=True, vertical_alignment="center"):
        run = draw_button(
            "Run the case", why_not, type="primary", icon=":material/play_arrow:", key="debug_run", role="run"
        )
        if not why_not:
            words = f"{counted(len(campaign.arms), 'question')} × {counted(campaign.trials, 'trial')}"
            with suppress(AnamnesisError):  # the start reports any error
                full = in_full(campaign, registry())
                words += f". {plain(estimate(full, registry(), CALLS_AT_ONCE, arms_side_by_side=True).in_words)}"
                words += "".join(f" Note that {plain(remark)}." for remark in remarks_of(full))
            st.markdown(f":gray[{words}]")
    if run and not why_not:
        with show_errors():
            adopt(start_bench(campaign))


def _ask_settings(
    case: Case | None, columns: Sequence[DeltaGenerator], *, all_questions: bool
) -> tuple[Campaign, str | None]:
    """Ask for doctor and patient in ``columns``, and for the rest here.

    Returns:
        The campaign, without a case while none is chosen, and what is wrong with its options, or ``None``.
    """
    fw = framework()
    left, right = st.columns(2, gap="large")
    with columns[0]:
        doctor = ask_player("debug", fw, tested_seat(fw).role)
    with left:
        # the two choices have separate controls, each with its own default
        arms = ask_arms("debug_all" if all_questions else "debug", fw, ALL_ARMS if all_questions else paper_arms(fw))
        trials_column, seed_column = st.columns(2)
        trials = trials_column.number_input(
            "Trials", 1, 20, 1, key="debug_trials", persist_state="session", help="Repetitions, each with its own seed."
        )
        seed = seed_column.number_input("Seed", 0, 2**31 - 1, 20, key="debug_seed", persist_state="session")
    with right:
        images = ask_pictures("debug", [doctor], [case] if case else [])
    places = ("main", "patient", "more")
    cast = ask_cast("debug", fw, [doctor], arms, columns[1:], (left, right), *places, images=images)
    data_set = case.case_key.partition("/")[0] if case else LIBRARY
    campaign = Campaign(
        names=cast.names[0],
        cases=(case,) if case else (),
        case_set=case.case_key.replace("/", ":", 1) if case else "",
        arms=arms,
        # a pasted case has no data set, so the library’s answers are the other choices
        many_choices=choices_of(data_set)
        if case is None or data_set in datasets()
        else (*choices_of(LIBRARY), case.answer),
        trials=int(trials),
        seed=int(seed),
        prompts=cast.prompts,
        settings=cast.settings,
    )
    return campaign, cast.problem


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
        st.caption("Paste a vignette and press Ctrl+Enter.")
        return None
    pasted = read_pasted(text)
    text_hash = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:8]
    key = f"debug_paste_{{}}_{text_hash}".format
    with st.expander("Edit its parts", icon=":material/edit:", expanded=not pasted.answer or bool(pasted.left_out)):
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
            help="With or without letters. Without choices only free responses are asked for.",
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
        case = set_apart(case_of(edited, specialty, title or ""))
    except UsageError as error:
        st.warning(plain(str(error)), icon=":material/edit:")
        return None
    st.markdown(f"Right answer **{plain(case.answer)}** :gray[· {counted(len(case.choices), 'choice')}]")
    return case


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


_FULL_HEIGHT = 8
"""A list of at most this many sessions is shown at full height."""


def draw_page() -> None:
    if (view := current()) is not None:
        draw_run(view)
        return
    if "run" in st.query_params or "trial" in st.query_params:
        st.info("The run in this URL is not stored here.", icon=":material/search_off:")
        draw_resume(st.query_params.get("run", ""))
    else:
        st.caption("Run one case, read every request and reply, then branch with a change.")
    ask_and_run()
    draw_earlier()


def draw_earlier() -> None:
    fold_if_free(Store())
    if not (stored := ask(sessions)):
        return
    st.header("Earlier sessions", anchor=False)
    table = pd.DataFrame(
        [
            {
                "Name": label_of_run(run.run_id).name or None,
                "Case": case_label(session.case) + prompts,
                "Players": players(run),
                "Questions": len(run.arms),
                "Trials": f"{run.done} of {run.planned}",
                "When (UTC)": when(run.created_at),
            }
            for session in stored
            for run in [session.run]
            for prompts in [" · prompts edited" if session.edited_from and session.case.dataset != EDITED else ""]
        ]
    )
    draw_table(
        table,
        "debug_earlier",
        on_row=lambda row: st.query_params.update(run=stored[row].run.run_id),
        height=290 if len(stored) > _FULL_HEIGHT else "content",
        download="",
        alt="Earlier sessions",
    )
    st.caption("Click a session to open it.")


def draw_run(view: BenchView) -> None:
    """Draw the matrix, the chosen cell next to it, and the editor of its step below."""
    draw_head(view)
    draw_before_after(view)
    matrix_column, cell_column = st.columns([3, 4], gap="small")
    with matrix_column:
        cell = draw_matrix(view)
    record = view.record(cell.trial) if cell else None
    if cell is None or record is None:
        return
    stored = not view.running and any(isinstance(event, Finished) for event in record.events)
    steps = steps_of_trial(record)
    with cell_column:
        step = draw_cell(cell, record, steps, stored=stored)
    if step is not None:
        st.divider()
    if step is not None and stored:
        draw_edit(record, steps, step)
    elif step is not None:
        condition = "after the run" if view.running else "in a finished trial; this one was stopped"
        st.caption(f"You can branch from a step {condition}.")
    draw_edit_all(view)


def draw_head(view: BenchView) -> None:
    """Draw the case with its answer, the cast and settings, and how the run ended."""
    header, case, bench = view.header, view.case, view.bench
    name = "" if view.single else label_of_run(header.run_id).name
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        st.header(plain(name or case_label(case)), anchor=False, width="content")
        with st.container(horizontal=True, width="content"):
            if header.source == "bench" and not view.single and not view.running:
                draw_label(header.run_id, f"{case_label(case)}, {players(header)}")
            st.button("Another case", icon=":material/add:", on_click=leave, key="debug_new")
    settings = [
        *([plain(case_label(case))] if name else []),
        title_of(header.protocol),
        f"asks for: {ASKS_FOR[question_kind(case)].lower()}",
        plain(players(header)),
        f"seed {header.seed}",
    ]
    if header.prompt_pack != header.protocol:
        settings.append(f"prompts {plain(header.prompt_pack)}")
    if persona := str(header.settings.get("persona") or ""):
        settings.append(f"persona {plain(persona)}")
    if header.settings.get("images"):
        settings.append("with pictures")
    st.markdown(f"Right answer **{plain(case.answer)}** :gray[· {' · '.join(settings)}]")
    draw_pictures_folded(case, "debug_run")
    if bench is not None:
        progress = bench.progress
        if bench.error:
            st.error(plain(bench.error), icon=":material/cloud_off:")
        elif bench.stopped and not view.running:
            st.info(f"Stopped: {progress.done} of {progress.planned} trials are stored.")
        draw_reused_replies(progress.remembered, progress.unused)
    ended = sum(any(isinstance(event, Finished) for event in events) for events in view.events.values())
    if not view.running and not view.single and ended < header.trials:
        draw_resume(header.run_id)


def players(run: RunHeader | Run) -> str:
    roles = [seat.role for seat in framework(run.protocol).seats]
    cast = {role: str(getattr(run, role, None) or run.settings.get(role) or "") for role in roles}
    if not any(map(is_model, cast.values())):
        return "rules, no model"
    names = {role: model_name(name) if is_model(name) else "reference" for role, name in cast.items()}
    if len(set(names.values())) == 1:
        return f"{names[roles[0]]} in every role"
    return ", ".join(f"{ROLE[role].lower()} {name}" for role, name in names.items())


if __name__ == "__main__":
    show("Case debugger", draw_page)
