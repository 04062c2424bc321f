"""What work will take before a page starts it, its progress, with the way to stop it, and a model asked in passing.

A model is asked something beside any trial (sections, facts, marks): choose it, press, watch, stop, read the outcome.
"""

from collections.abc import Callable
from typing import Any

import streamlit as st

from core.debugger.question import Ask, ask_model, outcome_of
from core.errors import AnamnesisError
from core.events import Called
from core.frameworks.casting import REFERENCE, CastNames, is_model
from core.jobs.ask_job import AskJob, begin_job, estimate_job, job_of
from core.jobs.background import Job
from core.jobs.estimate import Estimate
from core.live.session import Session
from core.measures.base import Measure
from core.measures.missing import seconds_for
from core.models.registry import load_registry
from core.store.database import Store
from pages.kit.cached import cached_query
from pages.kit.look import counted, duration, faults_said, in_callback, money, plain, price, tokens_of
from pages.kit.seats import ask_address, ask_seat, seat_problem
from pages.kit.visitor import only

_REDRAW_S = 0.5


def draw_estimate(size: Estimate) -> None:
    """Draw a job's size before it starts: what it is about, calls, tokens, time, cost, and whose prices these are."""
    by_role = ", ".join(f"{role.role} {role.calls:,}" for role in size.roles if role.calls)
    figures = {what.capitalize(): (f"{number:,}", None) for what, number in size.counts.items()} | {
        "Model calls": (f"{size.calls:,}", f"Estimated: {by_role}." if by_role else "No model is called."),
        "Tokens": (f"{size.tokens:,}", "Estimated from the length of the texts and typical replies."),
        "Time": (duration(size.seconds), "Estimated for the trials that run at once."),
        "Cost": ("unknown", "A model has no known price.") if size.cost_usd is None else (money(size.cost_usd), None),
    }
    with st.container(border=True):
        with st.container(horizontal=True, gap="medium"):
            for label, (value, help_) in figures.items():
                st.metric(label, value, help=help_, width="content")
        if size.prices:
            st.caption(plain(size.prices))


def draw_job(kind: type[AskJob[Any]], key: str, apart: str = "") -> bool:
    """Draw how far the job of a kind is, with the way to stop it, and return whether it runs; else what came of it."""
    work = job_of(kind, apart)
    if work is None:
        return False
    if work.running:
        st.fragment(draw_work, run_every=1.0)(work, kind.title, f"Reading the {kind.items}…", key, kind.items)
        return True
    if work.error:
        st.error(plain(work.error), icon=":material/cloud_off:")
    elif work.result is not None:
        shortfall = kind.shortfall(work.result)
        say = st.warning if shortfall else st.success
        say(plain(" ".join([*kind.summary(work.result), *shortfall])), icon=":material/forum:")
        if work.result.remarks:
            with st.expander(f"Which {kind.items} lack a result, and why", icon=":material/report:"):
                st.dataframe([{"Item": item, "Why": why} for item, why in work.result.remarks], hide_index=True)
    return False


def draw_start(
    job: AskJob[Any], label: str, icon: str, key: str, budget_usd: float | None = None, problem: str | None = None
) -> None:
    """Draw what a job will take, and the button that starts it, unless there is a ``problem``, in a sentence."""
    if problem:
        st.warning(plain(problem), icon=":material/key:")
    try:
        # cases would have to be hashed, which takes as long as the estimate
        size = estimate_job(job, Store(), load_registry()) if hasattr(job, "cases") else _size(job)
    except AnamnesisError as error:
        st.info(plain(str(error)), icon=":material/info:")
        return
    if size.todo:
        draw_estimate(size)
    else:
        st.markdown(f"All of these {job.items} are {job.participle}, under these prompts.")
    st.button(
        label,
        icon=f":material/{icon}:",
        type="primary",
        key=key,
        on_click=in_callback(begin_job),
        args=(job,),
        kwargs={"budget_usd": budget_usd},
        **only("run", disabled=not size.todo or bool(problem)),
    )


@cached_query("Counting what is to be asked…")
def _size(job: AskJob[Any]) -> Estimate:
    return estimate_job(job, Store(), load_registry())


def ask_budget(key: str, where: Any = st) -> float | None:
    """Ask where a job is to stop."""
    budget: float | None = where.number_input("Stop at US dollars", 0.0, None, None, key=key, placeholder="No limit")
    return budget or None


def draw_work(
    work: Job[Any],
    doing: str,
    starting: str,
    key: str,
    of: str = "conversations",
    *,
    figures: bool = True,
    stopped: str = "What is done by then is kept, and it resumes from there.",
) -> None:
    """Draw how far work on conversations, or something else ``of`` which there are many, is.

    Once it is over, the whole page is drawn again. ``doing`` says what is done ("Marking facts"), ``starting`` what is
    shown before the first count is in, ``figures`` that there are some of what was done before, and ``stopped`` what
    becomes of it when it is stopped.
    """
    if not work.running:
        st.rerun()
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        left = f", about {duration(work.seconds_left)} left" if work.seconds_left else ""
        words = f"{doing}: {work.done:,} of {work.planned:,} {of}{left}" if work.planned else starting
        st.progress(work.done / max(1, work.planned), text=words, width="stretch")
        st.button(
            "Stop",
            icon=":material/stop:",
            on_click=in_callback(work.stop),
            key=f"{key}_stop",
            **only("run", disabled=work.stopped, help=stopped),
        )
    if figures:
        st.caption("The figures below are of what was done when this page was last drawn.")


def draw_missing(
    work: Job[Any] | None,
    missing: int,
    measure: Measure,
    begin: Callable[[], None],
    key: str,
    *,
    explains: str,
    verb: str = "measure",
    icon: str = "straighten",
) -> None:
    """Draw what of the stored conversations is still to be measured, with the way to begin; or how far it is.

    ``explains`` says in a few words what is measured; ``verb`` what is done to them, as of "measure" or "mark". Nothing
    is drawn where nothing is missing.
    """
    if work is not None and work.running:
        doing = f"{verb.removesuffix('e').capitalize()}ing"
        st.fragment(draw_work, run_every=1.0)(work, doing, "Starting…", key)
        return
    if work is not None and work.error:
        st.error(plain(work.error))
    if not missing:
        return
    done = f"{verb.removesuffix('e')}ed"
    talks = "1 conversation is" if missing == 1 else f"{missing:,} conversations are"
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        st.markdown(
            f"**{talks} not {done} yet:** {explains}. That takes about "
            f"{duration(max(2.0, seconds_for(measure, missing)))} once; it is kept. The figures below leave out "
            f"what is not {done}.",
            width="stretch",
        )
        st.button(
            f"{verb.capitalize()} them",
            icon=f":material/{icon}:",
            type="primary",
            on_click=in_callback(begin),
            key=f"{key}_begin",
            **only("run"),
        )


def draw_remembered(replies: int, unused: int) -> None:
    """Say how many replies were not paid for again; ``unused`` ones no longer fit what is asked."""
    if replies:
        words = f"{replies} {'reply was' if replies == 1 else 'replies were'} given before, and not paid for again."
        if unused:
            words += f" {unused} more are no longer asked for, because the program or its prompts have changed since."
        st.caption(words)


def draw_question(key: str, label: str, ask: Ask, subject: str) -> Any | None:
    """Draw the way to ask a model, and return what came of it for this ``subject``, if anything did yet."""
    kept: dict[str, tuple[str, Session]] = st.session_state.setdefault("model_questions", {})
    about, session = kept.get(key, ("", None))
    if about != subject:
        session = None
    if session is not None and session.running:
        st.fragment(_watch, run_every=_REDRAW_S)(session, key)
        return None
    left, right = st.columns(2)
    with left:
        model = ask_seat(key, "grader", label="Model")
    with right:
        address = ask_address(key)
    if is_model(model):
        if problem := seat_problem(CastNames(REFERENCE["doctor"], grader=model), address):
            st.warning(plain(problem), icon=":material/key:")
        if st.button(label, key=f"{key}_go", icon=":material/forum:", **only("run", disabled=bool(problem))):
            with faults_said():
                kept[key] = (subject, ask_model(model, ask, f"{label} {subject}", base_url=address))
                st.rerun()
    else:
        st.caption("Choose a language model: this cannot be done by rules.")
    if session is None:
        return None
    if session.error:
        st.error(plain(session.error), icon=":material/cloud_off:")
    outcome = outcome_of(session)
    if outcome is not None:
        calls = [item.call for item in session.snapshot() if isinstance(item, Called)]
        figures = f"{counted(len(calls), 'call')} · {tokens_of(calls):,} tokens · {price(calls)}"
        st.caption(f"{plain(session.title)} · {figures}")
    return outcome


def _watch(session: Session, key: str) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        said = len(session.draft.text) if session.draft else 0
        st.markdown(f":material/hourglass_top: {plain(session.title)} is answering… :gray[{said:,} characters]")
        st.button("Stop", icon=":material/stop:", key=f"{key}_stop", on_click=in_callback(session.stop))
    if not session.running:
        st.rerun()
