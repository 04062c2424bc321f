"""Jobs on pages: the estimate, the start button, the progress with a stop button, and the summary.

Also single questions to a model outside any trial, such as splitting a vignette into facts.
"""

from collections import Counter
from dataclasses import replace
from typing import Any

import streamlit as st

from core.debugger.question import Ask, ask_model, outcome_of
from core.errors import AnamnesisError
from core.events import Called
from core.frameworks.casting import REFERENCE, CastNames, is_model
from core.jobs.ask_job import AskJob, begin_job, estimate_job, job_of
from core.jobs.background import Job
from core.jobs.estimate import JobEstimate
from core.jobs.judge import Judging
from core.live.session import Session
from core.models.registry import load_registry
from core.store.database import Store
from pages.kit.cached import cached_query
from pages.kit.empty import draw_error
from pages.kit.look import cost_of, counted, duration, in_callback, money, plain, show_errors, total_tokens
from pages.kit.seats import ask_address, ask_seat, seat_problem
from pages.kit.visitor import draw_button

_REDRAW_S = 0.5


def draw_estimate(size: JobEstimate) -> None:
    """Draw a job's estimate: items, calls, tokens, time, cost, and the source of the prices."""
    calls: Counter[str] = Counter()
    for role in size.roles:
        calls[role.role] += role.calls
    by_role = ", ".join(f"{role} {count:,}" for role, count in calls.items() if count)
    figures = {what.capitalize(): (f"{number:,}", None) for what, number in size.counts.items()} | {
        "Model calls": (f"{size.calls:,}", f"Estimated: {by_role}." if by_role else "No model is called."),
        "Tokens": (f"{size.tokens:,}", "Estimated from the length of the texts and typical replies."),
        "Time": (
            size.time_in_words,
            "Estimated for the trials that run at once; for a server of your own it is measured while the job runs.",
        ),
        "Cost": ("unknown", "A model has no known price.") if size.cost_usd is None else (money(size.cost_usd), None),
    }
    with st.container(border=True):
        with st.container(horizontal=True, gap="medium"):
            for label, (value, help_) in figures.items():
                st.metric(label, value, help=help_, width="content")
        if size.prices:
            st.caption(plain(size.prices))


def draw_job(kind: type[AskJob[Any]], key: str, apart: str = "") -> bool:
    """Draw the progress of a job, or the summary of the last one; return whether the job is running."""
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
        draw_message = st.warning if shortfall else st.success
        draw_message(plain(" ".join([*kind.summary(work.result), *shortfall])), icon=":material/forum:")
        if work.result.remarks:
            with st.expander(f"Which {kind.items} have no result, and why", icon=":material/report:"):
                st.dataframe([{"Item": item, "Why": why} for item, why in work.result.remarks], hide_index=True)
    return False


def draw_start(
    job: AskJob[Any], label: str, icon: str, key: str, budget_usd: float | None = None, problem: str | None = None
) -> None:
    """Draw a job's estimate and its start button, which a ``problem`` (a sentence) disables."""
    try:
        # Not cached for jobs with cases: hashing the cases takes as long as the estimate.
        size = estimate_job(job, Store(), load_registry()) if hasattr(job, "cases") else _size(job)
    except AnamnesisError as error:
        draw_error(error)
        return
    if size.todo:
        draw_estimate(size)
    nothing_left = "" if size.todo else f"All {job.items} are already {job.participle} with these prompts."
    draw_button(
        label,
        problem or nothing_left,
        role="run",
        icon=f":material/{icon}:",
        type="primary",
        key=key,
        on_click=in_callback(begin_job),
        args=(job,),
        kwargs={"budget_usd": budget_usd},
    )


@cached_query("Estimating…")
def _size(job: AskJob[Any]) -> JobEstimate:
    return estimate_job(job, Store(), load_registry())


def ask_budget(key: str, where: Any = st) -> float | None:
    """Ask for the budget in US dollars at which a job stops; ``None`` for no limit."""
    budget: float | None = where.number_input("Stop at US dollars", 0.0, None, None, key=key, placeholder="No limit")
    return budget or None


def draw_judging(job: AskJob[Any], key: str, rule: tuple[str, str] | None = None) -> None:
    """Draw the form that has a model do a job, which names none yet, or the progress of the job.

    ``rule`` is the name of a judge by rule, and what it can judge. A job that does not judge has a ``model``.
    """
    judges = isinstance(job, Judging)
    label, verb = ("Judge", "Judge") if judges else ("Model", f"Start: {job.title.lower()}")

    def by(model: str, address: str | None = None) -> AskJob[Any]:
        maker: dict[str, Any] = {"by": (model,)} if judges else {"model": model}
        return replace(job, **maker, base_url=address)

    if draw_job(type(job), f"{key}_work", job.instance):
        return
    model_column, address_column, budget_column = st.columns([3, 3, 2], vertical_alignment="bottom")
    with model_column:
        model = ask_seat(key, "grader", label=label, kinds=(rule[0],) if rule else ())
    if rule and model == rule[0]:
        st.caption(rule[1])
        draw_start(by(model), verb, "gavel", f"{key}_go", None)
    if not model or not is_model(model):
        return
    with address_column:
        address = ask_address(key)
    budget = ask_budget(f"{key}_budget", budget_column)
    if problem := seat_problem(CastNames("reference", grader=model), address):
        st.warning(plain(problem), icon=":material/key:")
        return
    draw_start(by(model, address), verb, "gavel", f"{key}_go", budget)


def draw_work(
    work: Job[Any],
    doing: str,
    starting: str,
    key: str,
    of: str = "conversations",
    *,
    figures: bool = True,
    stopped: str = "Finished items are stored; the job resumes from there.",
) -> None:
    """Draw the progress of a background job; the page is redrawn when the job ends.

    Args:
        work: The job.
        doing: What the job does ("Marking facts").
        starting: Text before the first count arrives.
        key: Prefix of the widget keys.
        of: Plural noun of the items.
        figures: Whether figures of finished items stand below.
        stopped: Help of the stop button: what happens to finished items.
    """
    if not work.running:
        st.rerun()
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        time_left = f", about {duration(work.seconds_left)} left" if work.seconds_left else ""
        doing = " · ".join(filter(None, (doing, work.step)))
        words = f"{doing}: {work.done:,} of {work.planned:,} {of}{time_left}" if work.planned else starting
        st.progress(min(1.0, work.done / max(1, work.planned)), text=words, width="stretch")
        draw_button(
            "Stop",
            "It stops when the running calls have ended." if work.stopped else "",
            role="run",
            icon=":material/stop:",
            on_click=in_callback(work.stop),
            key=f"{key}_stop",
            help=stopped,
        )
    if figures:
        st.caption("The figures below show the state when this page was last drawn.")


def draw_reused_replies(replies: int, unused: int) -> None:
    """Show how many replies came from the cache; ``unused`` cached replies no longer match any request."""
    if replies:
        words = f"{replies} {'reply was' if replies == 1 else 'replies were'} reused, and not paid for again."
        if unused:
            words += f" {unused} more cannot be reused, because the program or its prompts have changed."
        st.caption(words)


def draw_question(key: str, label: str, ask: Ask, subject: str) -> Any | None:
    """Draw the form that asks a model one question; return the outcome for this ``subject``, or ``None``."""
    sessions: dict[str, tuple[str, Session]] = st.session_state.setdefault("model_questions", {})
    stored_subject, session = sessions.get(key, ("", None))
    if stored_subject != subject:
        session = None
    if session is not None and session.running:
        st.fragment(_watch, run_every=_REDRAW_S)(session, key)
        return None
    left_column, right_column = st.columns(2)
    with left_column:
        model = ask_seat(key, "grader", label="Model", kinds=())
    with right_column:
        address = ask_address(key)
    if model:
        problem = seat_problem(CastNames(REFERENCE["doctor"], grader=model), address)
        if draw_button(label, problem or "", role="run", key=f"{key}_go", icon=":material/forum:"):
            with show_errors():
                sessions[key] = (subject, ask_model(model, ask, f"{label} {subject}", base_url=address))
                st.rerun()
    if session is None:
        return None
    if session.error:
        st.error(plain(session.error), icon=":material/cloud_off:")
    outcome = outcome_of(session)
    if outcome is not None:
        calls = [item.call for item in session.snapshot() if isinstance(item, Called)]
        figures = f"{counted(len(calls), 'call')} · {total_tokens(calls):,} tokens · cost {cost_of(calls)}"
        st.caption(plain(f"{session.title} · {figures}"))
    return outcome


def _watch(session: Session, key: str) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        characters = len(session.draft.text) if session.draft else 0
        st.markdown(f":material/hourglass_top: {plain(session.title)} is answering… :gray[{characters:,} characters]")
        st.button("Stop", icon=":material/stop:", key=f"{key}_stop", on_click=in_callback(session.stop))
    if not session.running:
        st.rerun()
