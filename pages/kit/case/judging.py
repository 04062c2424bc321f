"""What models judged that patients withheld and invented, whose word counts, and the way to have a model judge it."""

from collections.abc import Sequence

import streamlit as st

from core.agents.ledger_models import JudgedPatient, PatientVerdict
from core.frameworks.casting import CastNames, is_model
from core.jobs.estimate import Estimate
from core.jobs.judging import FactsWanted, begin_judging, estimate, judging
from core.measures.failures import beside_people
from core.models.registry import load_registry
from core.stats.differences import PairedCounts
from core.store.database import Store
from core.store.queries.facts import Judge, judged_of_trial, judges
from pages.kit.cached import ask, cached_query
from pages.kit.controls import choose
from pages.kit.jobs import draw_begin, draw_work
from pages.kit.look import plain
from pages.kit.names import model_name
from pages.kit.seats import Seats, ask_address, ask_seat, seat_problem

_SHORT = 8
"""Letters of a prompt's hash that are shown."""


def judge_words(judge: Judge | JudgedPatient) -> str:
    """Return a judge in words: the model, and the hash of the prompts."""
    model = judge.model if isinstance(judge, Judge) else judge.judge
    return f"{plain(model_name(model))} (prompts {judge.prompt_hash[:_SHORT]})"


def judged_here(trial_id: str | None) -> list[JudgedPatient]:
    """Return what each judge says of one conversation, who was last at work first."""
    return ask(judged_of_trial, trial_id) if trial_id else []


def ask_judge() -> Judge | None:
    """Ask whose word counts where several judged; ``None`` where nobody did, else who was last at work by default."""
    known = {"|".join(kept.judge): kept for kept in ask(judges) if kept.judged}
    if len(known) < 2:
        return next((kept.judge for kept in known.values()), None)
    chosen = choose(
        "Judge of patients",
        list(known),
        "failures_judge",
        names=lambda key: (
            f"{model_name(known[key].judge.model)} · {known[key].judge.prompt_hash[:_SHORT]} · "
            f"{known[key].judged:,} conversations"
        ),
        width=420,
        help="Judges are never mixed. The most recent one stands first.",
    )
    return known[chosen].judge


@cached_query()
def _beside_people(judge: Judge) -> dict[str, PairedCounts]:
    return beside_people(Store(), judge)


def people_words(judge: Judge) -> str:
    """Return how a judge stands to people on the same conversations, or that nobody knows."""
    found = _beside_people(judge)
    if not found:
        return "How often it agrees with people is not known: nobody has reviewed a conversation that it judged."
    kappa = {fault: "" if of.kappa != of.kappa else f", Cohen’s kappa {of.kappa:.2f}" for fault, of in found.items()}
    said = (f"*{fault}* {of.both + of.neither:,} of {sum(of):,}{kappa[fault]}" for fault, of in found.items())
    return f"It agrees with people who reviewed the same conversations: {'; '.join(said)}."


def draw_patient(trial_id: str | None, key: str) -> None:
    """Draw what each judge says that the patient withheld and invented, with its words, and the way to ask one."""
    known = judged_here(trial_id)
    for judged in known:
        dropped = f"; {judged.dropped} dropped, whose quotation is not there" if judged.dropped else ""
        nothing = "" if judged.verdicts else ": nothing withheld, nothing invented"
        st.markdown(f":gray[:material/gavel: Judged by {judge_words(judged)}{nothing}{dropped}]")
        for one in judged.verdicts:
            st.markdown(verdict_words(one))
    if not known:
        st.markdown(":gray-badge[:material/gavel: Not judged] What the patient withheld or invented no rule decides.")
    with st.expander("Have a model judge what the patient withheld and invented", icon=":material/gavel:"):
        if trial_id is None:
            st.caption("It can be judged once the trial has come to its end and is stored.")
        else:
            draw_form((trial_id,), key, "this conversation")


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
    work = judging(trials[0] if len(trials) == 1 else None)
    if work is not None and work.running:
        st.fragment(draw_work, run_every=1.0)(work, "Judging patients", "Reading the conversations…", f"{key}_work")
        return
    if work is not None and work.error:
        st.error(plain(work.error), icon=":material/cloud_off:")
    elif work is not None and (done := work.result) is not None:
        words = f"{done.judged:,} conversations judged by {model_name(done.model)}: {done.with_any:,} hold something "
        words += "withheld or invented."
        words += f" {done.dropped:,} verdicts were dropped: their quotation is not there." * bool(done.dropped)
        failed = f" {done.failed:,} could not be judged and are asked again next time ({done.failure})."
        words += failed * bool(done.failed)
        words += f" {done.stopped} What was judged is kept; the same again goes on." if done.stopped else ""
        (st.warning if done.failed or done.stopped else st.success)(plain(words), icon=":material/gavel:")
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
    )
    if problem := seat_problem(Seats(CastNames("reference", grader=model), address)):
        st.warning(plain(problem), icon=":material/key:")
        return
    wanted = FactsWanted(model, trials=tuple(trials), base_url=address)
    draw_begin(
        lambda: _size(wanted),
        f"This model has judged {what} under these prompts.",
        "Judge",
        "gavel",
        f"{key}_facts_go",
        begin_judging,
        wanted,
        budget_usd=budget or None,
    )


@cached_query("Counting the conversations…")
def _size(wanted: FactsWanted) -> Estimate:
    return estimate(Store(), wanted, load_registry())
