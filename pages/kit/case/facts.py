"""The facts of a case: a model's judgements of them in a conversation, the form that starts judging, and the editor.

Facts come from rules, from a model, or from a person; the saved list of a case counts on every page. Only models judge
which facts the doctor asked for and what the patient invented.
"""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from core.agents.fact_splitter import FactSplitter, SplitFacts
from core.case import Case
from core.events import Event, Utterance
from core.figures.curves import Point, curves
from core.figures.style import Axis
from core.jobs.judge import Judging
from core.judging.judgement import Judge
from core.measures.failures import agreement_with_people
from core.measures.ledger import judge_key, outcomes_of
from core.store.database import Store
from core.store.queries.fact_sets import SavedFacts, facts_saved, save_facts
from core.store.queries.judged_facts import FORM, JudgedPatient, VerdictKind, judged_patients, judges
from core.store.selection import Selection
from core.text.facts import AtomicFact, facts_of, with_ids
from core.text.topics import TOPICS
from pages.kit.cached import ask, cached_query, read
from pages.kit.case.verdicts import draw_questions, trial_of
from pages.kit.controls import choose
from pages.kit.figures import draw_figure
from pages.kit.jobs import draw_judging, draw_question
from pages.kit.look import plain, show_errors
from pages.kit.names import case_name, model_name
from pages.kit.visitor import only

_COUNTS: dict[VerdictKind, tuple[str, str]] = {
    "asked": ("Asked", "Facts that the doctor asked for."),
    "volunteered": ("Volunteered", "Told by the patient without a question."),
    "withheld": ("Withheld", "Asked for, but not told."),
    "never_asked": ("Never asked", "The patient could have told them."),
    "invented": ("Invented", "What the case does not support."),
}
_LINE = {"told": "#0072B2"}
_BY_RULE = "rules"
_BY_HAND = "a person"
_SHORT = 8
"""Characters of a prompt's hash that are shown."""


@cached_query(entries=64)
def _saved(case_key: str, content_hash: str, _case: Case) -> SavedFacts | None:
    with Store().read() as cursor:
        return facts_saved(cursor, _case)


def facts_in_use(case: Case) -> tuple[AtomicFact, ...]:
    """Return the facts of a case: the newest saved list, or the facts from rules if none is saved."""
    saved = _saved(case.case_key, case.content_hash, case)
    return saved.facts if saved else facts_of(case)


def draw_facts_ledger(case: Case, events: Sequence[Event], key: str) -> None:
    """Draw the facts of a case: the newest judgements with totals, the form that starts judging, and the editor."""
    messages = [event for event in events if isinstance(event, Utterance)]
    if not any(event.role == "patient" for event in messages):
        st.info(
            "The patient has said nothing in this trial, so there is nothing to judge.", icon=":material/fact_check:"
        )
        return
    facts = facts_in_use(case)
    judged = next((judgement for judgement in judgements_of(trial_of(events)) if judgement.facts), None)
    if judged is not None:
        with st.container(border=True, horizontal=True):
            for kind, (label, words) in _COUNTS.items():
                st.metric(label, len(judged.of(kind)), help=words, width="content")
        draw_figure(
            lambda dark: curves(
                [Point("told", turn + 1, share) for turn, share in enumerate(judged.told_by(len(messages)))],
                {"told": "Facts told"},
                _LINE,
                Axis("After message", number="g"),
                Axis("Facts told", (0, 1.02), ".0%", None, ".0%"),
                steps=True,
                height=190,
                dark=dark,
            ),
            f"{key}_coverage",
            "Share of the facts that were told by each message",
            f"One conversation on {case_name(case.case_key)}; {len(judged.facts)} facts that a patient can tell, "
            f"judged by {judge_words(judged.judge)}.",
        )
    draw_questions(outcomes_of(facts, judged), events, f"{key}_facts")
    st.caption("Facts known only from examination or tests are not judged.")
    draw_patient(trial_of(events), key)
    _draw_editor(case, key)


def _draw_editor(case: Case, key: str) -> None:
    """Draw the editor of a case's facts, and the form that has a model split the vignette."""
    with st.expander("Edit the facts of this case", icon=":material/edit_note:"):
        saved = _saved(case.case_key, case.content_hash, case)
        made_by = saved.made_by if saved else "its profile" if case.profile else "rules on the vignette"
        st.caption(
            f"These facts were made by {plain(model_name(made_by))}. A saved list counts for this case on every page."
        )
        proposed = _proposed(case, key)
        facts = proposed or facts_in_use(case)
        edited = st.data_editor(
            facts_table(facts),
            num_rows="dynamic",
            hide_index=True,
            key=f"{key}_edit_{abs(hash(tuple(facts)))}",  # a new list of facts resets the editor
            column_order=["Label", "Fact", "As the patient says it", "Patient can tell", "Topic"],
            column_config={
                "Topic": st.column_config.SelectboxColumn(options=list(TOPICS), required=True),
                "Fact": st.column_config.TextColumn(required=True, width="large"),
                "Patient can tell": st.column_config.CheckboxColumn(help="Off: only examination or tests show it."),
            },
        )
        with st.container(horizontal=True):
            if st.button("Save these facts", key=f"{key}_save", type="primary", **only("run")):
                _, session = st.session_state.get("model_questions", {}).get(f"{key}_splitter", ("", None))
                by = session.title if proposed is not None and session is not None else _BY_HAND
                _save(case, facts_from(edited), by)
            if (
                saved
                and saved.made_by != _BY_RULE
                and st.button("Back to the rules", key=f"{key}_rules", **only("run"))
            ):
                _save(case, facts_of(case), _BY_RULE)


def _proposed(case: Case, key: str) -> tuple[AtomicFact, ...] | None:
    """Draw the form that has a model split the vignette into facts, and return them; they are not saved."""
    if not st.toggle("Split the vignette with a model", key=f"{key}_split"):
        return None

    outcome = draw_question(
        f"{key}_splitter",
        "Split with the model",
        lambda voice, pack: FactSplitter(voice, pack).split(case),
        case.content_hash,
    )
    if not isinstance(outcome, SplitFacts):
        return None
    if outcome.unreadable:
        st.warning(plain(outcome.unreadable))
        return None
    if outcome.rejected:
        st.caption(f"Facts rejected because their words are not in the vignette: {len(outcome.rejected)}.")
    return outcome.facts


def facts_table(facts: Sequence[AtomicFact]) -> pd.DataFrame:
    """Return the facts as a table for the editor, with their ids in a hidden column."""
    return pd.DataFrame(
        [
            {
                "id": fact.id,
                "Label": fact.key,
                "Fact": fact.text,
                "As the patient says it": fact.lay,
                "Patient can tell": fact.told,
                "Topic": fact.topic,
            }
            for fact in facts
        ]
    )


def facts_from(edited: pd.DataFrame) -> tuple[AtomicFact, ...]:
    """Return the edited facts without empty rows; new facts get an id."""
    rows = [(str(row["Fact"]).strip(), row) for row in edited.fillna("").to_dict("records")]
    return with_ids(
        AtomicFact(
            id=str(row["id"] or text),
            key=str(row["Label"] or topic),
            text=text,
            topic=topic,
            lay=str(row["As the patient says it"] or text),
            told=bool(row["Patient can tell"]),
        )
        for text, row in rows
        for topic in (row["Topic"] if row["Topic"] in TOPICS else "other",)
        if text
    )


def _save(case: Case, facts: Sequence[AtomicFact], made_by: str) -> None:
    if not facts:
        st.warning("Keep at least one fact.")
        return
    with show_errors():
        with Store().write() as connection:
            save_facts(connection, case, facts, made_by)
        st.rerun()


def judge_words(judge: Judge) -> str:
    return f"{plain(model_name(judge.name))} (prompts {judge.prompt_hash[:_SHORT]})"


def judgements_of(trial_id: str | None) -> list[JudgedPatient]:
    """Return each judge's judgement of one trial, the most recent first; empty without a trial."""
    return ask(judged_patients, None, Selection(trials=(trial_id,))) if trial_id else []


def ask_judge() -> Judge | None:
    """Ask whose judgements count if there are several judges; by default the most recent. ``None`` if there is none."""
    work_by_key = {judge_key(work.judge): work for work in ask(judges) if work.judged}
    if len(work_by_key) < 2:
        return next((work.judge for work in work_by_key.values()), None)
    chosen = choose(
        "Judge of patients",
        list(work_by_key),
        "failures_judge",
        names=lambda key: (
            f"{model_name(work_by_key[key].judge.name)} · {work_by_key[key].judge.prompt_hash[:_SHORT]} · "
            f"{work_by_key[key].judged:,} conversations"
        ),
        width=420,
        help="Judges are never mixed. The most recent is first.",
    )
    return work_by_key[chosen].judge


def people_words(judge: Judge) -> str:
    """Return a judge's agreement with people on the same conversations, as a sentence."""
    counts_by_fault = read(agreement_with_people, judge)
    if not counts_by_fault:
        return "Its agreement with people is unknown: no person has reviewed a conversation that it judged."
    kappa = {
        fault: "" if of.kappa != of.kappa else f", Cohen’s kappa {of.kappa:.2f}"
        for fault, of in counts_by_fault.items()
    }
    agreements = (
        f"*{fault}* {of.both + of.neither:,} of {sum(of):,}{kappa[fault]}" for fault, of in counts_by_fault.items()
    )
    return f"It agrees with people who reviewed the same conversations: {'; '.join(agreements)}."


def draw_patient(trial_id: str | None, key: str) -> None:
    """Draw what the patient withheld and invented according to each judge, and the form that starts judging."""
    judgements = judgements_of(trial_id)
    for judged in judgements:
        faults = judged.of("withheld", "invented")
        dropped = f"; {judged.dropped} dropped because their quotation does not occur" if judged.dropped else ""
        nothing = "" if faults else ": nothing withheld, nothing invented"
        st.markdown(f":gray[:material/gavel: Judged by {judge_words(judged.judge)}{nothing}{dropped}]")
        for fault in faults:
            what, where = f"“{plain(fault.words)}”", f"Message {(fault.turn or 0) + 1}:"
            if fault.kind == "withheld":
                badge = ":orange-badge[:material/visibility_off: Withheld]"
                st.markdown(f"{badge} {where} asked {what}, the patient withheld :gray[{plain(fault.fact_text)}]")
            else:
                how = f"contradicts: {plain(fault.fact_text)}" if fault.fact_text else "is nowhere in the case"
                st.markdown(f":orange-badge[:material/warning: Invented] {where} {what} :gray[{how}]")
    if not judgements:
        st.markdown(":gray-badge[:material/gavel: Not judged] Only a model can judge the facts.")
    with st.expander("Have a model judge the facts of this conversation", icon=":material/gavel:"):
        if trial_id is None:
            st.caption("It can be judged when the trial has ended and is stored.")
        else:
            draw_judging(Judging(FORM, trials=(trial_id,)), f"{key}_facts")
