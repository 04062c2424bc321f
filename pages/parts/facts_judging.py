"""Who judged what patients withheld and invented, and the way to have a model judge it: estimate, progress, stop."""

from collections.abc import Sequence

import streamlit as st

from core.agents.ledger_models import JudgedPatient, PatientVerdict
from core.errors import AnamnesisError
from core.frameworks.casting import CastNames, is_model
from core.jobs.estimate import Estimate
from core.jobs.judging import FactsWanted, JudgingOutcome, begin_judging, estimate, judging
from core.measures.failures import BesidePeople, beside_people
from core.models.registry import load_registry
from core.store.database import Store
from core.store.queries.facts import Judge, JudgeKept, judged_of_trial, judges
from core.work import Work
from pages.parts.figures import model_name
from pages.parts.look import plain
from pages.parts.setup import Seats, ask_address, ask_seat, seat_problem
from pages.parts.work_progress import draw_estimate, draw_work

_CONCURRENCY = 16
_SHORT = 8
"""Letters of a prompt's hash that are shown."""


def known_judges() -> list[JudgeKept]:
    """Return who judged conversations of campaigns and releases, who was last at work first."""
    store = Store()
    return [kept for kept in _judges(str(store.path), store.version) if kept.judged]


def judge_words(judge: Judge | JudgedPatient) -> str:
    """Return a judge in words: the model, and the hash of the prompts."""
    model = judge.model if isinstance(judge, Judge) else judge.judge
    return f"{plain(model_name(model))} (prompts {judge.prompt_hash[:_SHORT]})"


def judged_here(trial_id: str | None) -> list[JudgedPatient]:
    """Return what each judge says of one conversation, who was last at work first."""
    store = Store()
    return _judged(str(store.path), store.version, trial_id) if trial_id else []


def ask_judge() -> Judge | None:
    """Ask whose word counts where several judged; ``None`` where nobody did, else who was last at work by default."""
    known = known_judges()
    if not known:
        return None
    if len(known) == 1:
        return known[0].judge
    labels = {"|".join(kept.judge): kept for kept in known}
    chosen = st.selectbox(
        "Judge of patients", list(labels), key="failures_judge", bind="query-params", width=420,
        format_func=lambda key: f"{model_name(labels[key].judge.model)} · {labels[key].judge.prompt_hash[:_SHORT]} · "
        f"{labels[key].judged:,} conversations",
        help="Judges are never mixed. The one that was last at work stands first.",
    )  # fmt: skip
    return labels[chosen].judge if chosen else known[0].judge


def people_words(judge: Judge) -> str:
    """Return how a judge stands to people on the same conversations, or that nobody knows."""
    store = Store()
    found = _people(str(store.path), store.version, judge)
    if not found:
        return "How often it agrees with people is not known: nobody has reviewed a conversation that it judged."
    names = {"in_vignette": "invented", "complete_answers": "withheld"}
    kappa = {row.question: "" if row.kappa != row.kappa else f", Cohen’s kappa {row.kappa:.2f}" for row in found}
    said = (f"*{names[row.question]}* {row.same:,} of {row.n:,}{kappa[row.question]}" for row in found)
    return f"It agrees with people who reviewed the same conversations: {'; '.join(said)}."


def verdict_words(one: PatientVerdict) -> str:
    """Return a verdict with its quotation, in Markdown; messages are counted from 1."""
    if one.kind == "withheld":
        return (
            f":orange-badge[:material/visibility_off: Withheld] Message {one.turn + 1}: asked “{plain(one.words)}”, "
            f"the patient kept back :gray[{plain(one.fact_text)}]"
        )
    how = f" :gray[contradicts: {plain(one.fact_text)}]" if one.fact_text else " :gray[is nowhere in the case]"
    return f":orange-badge[:material/warning: Invented] Message {one.turn + 1}: “{plain(one.words)}”{how}"


def draw_form(trials: Sequence[str], key: str, what: str) -> None:
    """Draw the form that has these conversations judged, or how far a judging is; ``what`` names them in words."""
    single = trials[0] if len(trials) == 1 else None
    work = judging(single)
    if work is not None and work.running:
        st.fragment(draw_work, run_every=1.0)(work, "Judging patients", "Reading the conversations…", f"{key}_work")
        return
    if work is not None:
        _tell_end(work)
    left, middle, right = st.columns([3, 3, 2], vertical_alignment="bottom")
    with left:
        model = ask_seat(f"{key}_facts", "grader", label="Model that judges")
    if not is_model(model):
        st.caption("Choose a language model: rules cannot judge this.")
        return
    with middle:
        address = ask_address(f"{key}_facts")
    budget = right.number_input(
        "Stop at US dollars", 0.0, None, None, key=f"{key}_facts_budget", placeholder="No limit"
    )  # fmt: skip
    problem = seat_problem(Seats(CastNames("reference", grader=model), address))
    if problem:
        st.warning(plain(problem), icon=":material/key:")
        return
    wanted = FactsWanted(model, trials=tuple(trials), base_url=address)
    store = Store()
    try:
        size = _size(str(store.path), store.version, wanted)
    except AnamnesisError as error:
        st.info(plain(str(error)), icon=":material/info:")
        return
    if size.todo:
        draw_estimate(size)
    else:
        st.markdown(f"This model has judged {what} under these prompts.")
    st.button(
        "Judge", icon=":material/gavel:", key=f"{key}_facts_go", on_click=_begin, args=(wanted, budget or None),
        disabled=not size.todo,
    )  # fmt: skip


def _begin(wanted: FactsWanted, budget: float | None) -> None:
    begin_judging(wanted, concurrency=_CONCURRENCY, budget_usd=budget)


def _tell_end(work: Work[JudgingOutcome]) -> None:
    """Say how the last judging of this server went."""
    if work.error:
        st.error(plain(work.error), icon=":material/cloud_off:")
    elif work.result is not None:
        done = work.result
        words = f"{done.judged:,} conversations judged by {model_name(done.model)}: {done.with_any:,} hold something "
        words += "withheld or invented."
        words += f" {done.dropped:,} verdicts were dropped: their quotation is not there." * bool(done.dropped)
        words += f" {done.failed:,} could not be judged and are asked again next time ({done.failure})." * bool(
            done.failed
        )
        words += f" {done.stopped} What was judged is kept; the same again goes on." if done.stopped else ""
        (st.warning if done.failed or done.stopped else st.success)(plain(words), icon=":material/gavel:")


@st.cache_resource(max_entries=2, show_spinner=False)
def _judges(path: str, version: str) -> list[JudgeKept]:
    with Store().read() as cursor:
        return judges(cursor)


@st.cache_resource(max_entries=64, show_spinner=False)
def _judged(path: str, version: str, trial_id: str) -> list[JudgedPatient]:
    with Store().read() as cursor:
        return judged_of_trial(cursor, trial_id)


@st.cache_resource(max_entries=8, show_spinner=False)
def _people(path: str, version: str, judge: Judge) -> list[BesidePeople]:
    return beside_people(Store(), judge)


@st.cache_resource(max_entries=16, show_spinner="Counting the conversations…")
def _size(path: str, version: str, wanted: FactsWanted) -> Estimate:
    return estimate(Store(), wanted, load_registry(), _CONCURRENCY)
