"""The facts of a case: what a model judged became of them in a conversation, the way to have it judged, and editing.

Facts are made by rule, by a model, or edited by hand; a saved list counts for its case on every page. What became of
them, and what the patient invented, is judged by a model only.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from core.agents.ledger_models import FactMark, FactSplitter, JudgedPatient, PatientVerdict, SplitFacts
from core.case import Case
from core.events import Event, Started, Utterance
from core.figures.curves import Point, curves
from core.figures.style import Axis
from core.frameworks.casting import CastNames, is_model
from core.jobs.judging import FactsJudging
from core.measures.failures import agreement_with_people
from core.stats.differences import PairedCounts
from core.store.database import Store
from core.store.queries.fact_judgements import Judge, judged_of_trial, judges
from core.store.queries.fact_sets import FactSet, facts_saved, save_facts
from core.text.facts import AtomicFact, facts_of, with_ids
from core.text.topics import TOPICS
from pages.kit.cached import ask, cached_query
from pages.kit.chat import message
from pages.kit.controls import choose
from pages.kit.figures import draw_figure, is_dark
from pages.kit.jobs import ask_budget, draw_job, draw_question, draw_start
from pages.kit.look import faults_said, plain
from pages.kit.names import model_name
from pages.kit.seats import ask_address, ask_seat, seat_problem
from pages.kit.tables import draw_table
from pages.kit.visitor import only

_MARK: dict[FactMark, str] = {
    "asked": "✓ Asked", "volunteered": "↑ Volunteered", "withheld": "✗ Withheld", "never_asked": "✗ Never asked",
}  # fmt: skip
_INK: dict[FactMark, tuple[str, str]] = {
    "asked": ("#00694A", "#3DCB9B"),
    "volunteered": ("#005C8F", "#7CC4EE"),
    "withheld": ("#8A6100", "#E6B450"),
    "never_asked": ("#B03A00", "#FF8A50"),
}
"""Mark → its colour on a light and on a dark ground."""
_LINE = {"told": "#0072B2"}
_BY_RULE = "rules"
_BY_HAND = "a person"
_SHORT = 8
"""Letters of a prompt's hash that are shown."""


@cached_query(entries=64)
def _saved(case_key: str, content_hash: str, _case: Case) -> FactSet | None:
    with Store().read() as cursor:
        return facts_saved(cursor, _case)


def facts_in_use(case: Case) -> tuple[AtomicFact, ...]:
    """Return the facts of a case that are in use: the newest saved ones, else those by rule."""
    saved = _saved(case.case_key, case.content_hash, case)
    return facts_of(case, saved.facts if saved else None)


def trial_of(events: Sequence[Event]) -> str | None:
    """Return the trial whose events these are; ``None`` where it did not come to its end."""
    started = next((event for event in events if isinstance(event, Started)), None)
    over = any(event.kind == "finished" for event in events)
    return started.trial_id if started is not None and over else None


def draw_facts_ledger(case: Case, events: Sequence[Event], key: str) -> None:
    """Draw the facts of a case: what the newest judge says became of each, what it found, and how to ask a judge."""
    said = [event for event in events if isinstance(event, Utterance)]
    if not any(event.role == "patient" for event in said):
        st.info(
            "The patient has said nothing in this trial, so there is nothing to judge.", icon=":material/fact_check:"
        )
        return
    facts = facts_in_use(case)
    judged = next((one for one in judged_here(trial_of(events)) if one.facts), None)
    if judged is None:
        st.info("Not judged: what became of the facts no rule decides.", icon=":material/gavel:")
    else:
        _draw_figures(judged)
        draw_figure(
            lambda dark: curves(
                [Point("told", turn + 1, share) for turn, share in coverage(judged, len(said))],
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
            f"One conversation on {case.case_key}; {len(judged.facts)} facts that a patient can tell, judged by "
            f"{judge_words(judged)}.",
        )
    _draw_facts(facts, judged, said, key)
    draw_patient(trial_of(events), key)
    _draw_editor(case, key)


def _draw_figures(judged: JudgedPatient) -> None:
    facts = len(judged.facts)
    figures = {
        "Asked": (f"{len(judged.of('asked'))} of {facts}", "Facts that the doctor asked for."),
        "Volunteered": (str(len(judged.of("volunteered"))), "Told by the patient without being asked."),
        "Withheld": (str(len(judged.of("withheld"))), "Facts asked for and kept back."),
        "Never asked": (str(len(judged.of("never_asked"))), "Facts that a patient can tell."),
        "Invented": (str(len(judged.of("invented"))), "What the case does not support."),
    }
    with st.container(border=True, horizontal=True):
        for label, (value, words) in figures.items():
            st.metric(label, value, help=words, width="content")


def coverage(judged: JudgedPatient, messages: int) -> list[tuple[int, float]]:
    """Return (number of a message, share of the facts told up to it), one point a message."""
    told = [verdict.turn for verdict in judged.of("asked", "volunteered") if verdict.turn is not None]
    return [(number, sum(turn <= number for turn in told) / len(judged.facts)) for number in range(messages)]


def facts_frame(facts: Sequence[AtomicFact], verdicts: Mapping[str, PatientVerdict]) -> pd.DataFrame:
    """Return every fact with its mark, by id; messages are counted from 1."""
    rows = []
    for fact in facts:
        verdict = verdicts.get(fact.id)
        turn = verdict.turn if verdict else None
        rows.append(
            {
                "Mark": _mark_words(fact, verdict),
                "Message": "–" if turn is None else str(turn + 1),
                "Fact": f"{fact.key[:1].upper()}{fact.key[1:]}: {fact.text}",
                "Topic": fact.topic,
            }
        )
    return pd.DataFrame(rows)


def _mark_words(fact: AtomicFact, verdict: PatientVerdict | None) -> str:
    if verdict is not None and verdict.kind != "invented":
        return _MARK[verdict.kind]
    return "Not judged" if fact.told else "– Not for the patient"


def _draw_facts(facts: Sequence[AtomicFact], judged: JudgedPatient | None, said: Sequence[Utterance], key: str) -> None:
    """Draw the facts; a chosen one shows the question and the reply behind its mark."""
    verdicts = {str(verdict.fact): verdict for verdict in judged.facts} if judged else {}
    frame = facts_frame(facts, verdicts)
    inks = {_MARK[name]: ink[is_dark()] for name, ink in _INK.items()}
    chosen = f"{key}_fact"
    draw_table(
        frame,
        f"{key}_facts",
        {
            "Fact": st.column_config.TextColumn(width="large"),
            "Mark": st.column_config.TextColumn(width=118),
            "Message": st.column_config.TextColumn(
                help="The patient's message that told it, or that kept it back.", width=68
            ),
        },
        on_row=lambda row: st.session_state.update({chosen: row}),
        styled=lambda rows: rows.style.map(lambda mark: f"color: {inks.get(mark, '')}", subset=["Mark"]),
        height="content" if len(frame) <= 10 else 400,
        download="",
        alt="Facts of the case with their marks",
    )
    st.caption(
        "Choose a fact to see the messages behind its mark. Facts that only examination or tests show are not for the "
        "patient to tell and are not judged."
    )
    place = st.session_state.get(chosen)
    if place is None or place >= len(facts):
        return
    fact = facts[place]
    verdict = verdicts.get(fact.id)
    st.markdown(f"**{plain(fact.text)}** :gray[· as a patient says it: {plain(fact.lay)}]")
    if verdict is None or verdict.turn is None:
        st.caption("No message asked for it or told it." if verdict else "Not judged.")
        return
    for spoken in said:
        if spoken.turn in (verdict.turn - 1, verdict.turn):
            st.caption(f"Message {spoken.turn + 1}")
            message(spoken.role, spoken.text)


def _draw_editor(case: Case, key: str) -> None:
    """Draw the editor of a case's facts, and the way to have a model take the vignette apart."""
    with st.expander("Edit the facts of this case", icon=":material/edit_note:"):
        saved = _saved(case.case_key, case.content_hash, case)
        made_by = saved.made_by if saved else "its profile" if case.profile else "rules on the vignette"
        st.caption(f"These facts were made by {plain(made_by)}. A saved list counts for this case on every page.")
        proposed = _proposed(case, key)
        facts = proposed or facts_in_use(case)
        edited = st.data_editor(
            facts_table(facts),
            num_rows="dynamic",
            hide_index=True,
            key=f"{key}_edit_{abs(hash(tuple(facts)))}",  # another list is begun anew
            column_order=["Label", "Fact", "As the patient says it", "Patient can tell", "Topic"],
            column_config={
                "Topic": st.column_config.SelectboxColumn(options=list(TOPICS), required=True),
                "Fact": st.column_config.TextColumn(required=True, width="large"),
                "Patient can tell": st.column_config.CheckboxColumn(help="Off: only examination or tests show it."),
            },
        )
        with st.container(horizontal=True):
            if st.button("Save these facts", key=f"{key}_save", type="primary", **only("edit")):
                _, session = st.session_state.get("model_questions", {}).get(f"{key}_splitter", ("", None))
                by = session.title if proposed is not None and session is not None else _BY_HAND
                _save(case, facts_from(edited), by)
            if (
                saved
                and saved.made_by != _BY_RULE
                and st.button("Back to the rules", key=f"{key}_rules", **only("edit"))
            ):
                _save(case, facts_of(case), _BY_RULE)


def _proposed(case: Case, key: str) -> tuple[AtomicFact, ...] | None:
    """Let a model take the vignette apart; its facts are a proposal until they are saved."""
    if not st.toggle("Split the vignette with a model", key=f"{key}_split"):
        return None

    found = draw_question(
        f"{key}_splitter",
        "Split with the model",
        lambda voice, pack: FactSplitter(voice, pack).split(case),
        case.content_hash,
    )
    if not isinstance(found, SplitFacts):
        return None
    if found.unreadable:
        st.warning(plain(found.unreadable))
        return None
    if found.rejected:
        st.caption(f"Facts rejected because their words are not in the vignette: {len(found.rejected)}.")
    return found.facts


def facts_table(facts: Sequence[AtomicFact]) -> pd.DataFrame:
    """Return facts as the editor shows them; the id comes along unseen."""
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
    """Return the edited facts; rows without a fact are left out, new ones get an id of their own."""
    made = []
    for row in edited.fillna("").to_dict("records"):
        if text := str(row["Fact"]).strip():
            topic = row["Topic"] if row["Topic"] in TOPICS else "other"
            made.append(
                AtomicFact(
                    id=str(row["id"] or text),
                    key=str(row["Label"] or topic),
                    text=text,
                    topic=topic,
                    lay=str(row["As the patient says it"] or text),
                    told=bool(row["Patient can tell"]),
                )
            )
    return with_ids(made)


def _save(case: Case, facts: Sequence[AtomicFact], made_by: str) -> None:
    if not facts:
        st.warning("A list without facts would mark nothing: keep at least one.")
        return
    with faults_said():
        with Store().write() as connection:
            save_facts(connection, case, facts, made_by)
        st.rerun()


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
    return agreement_with_people(Store(), judge)


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
        faults = judged.of("withheld", "invented")
        dropped = f"; {judged.dropped} dropped, whose quotation is not there" if judged.dropped else ""
        nothing = "" if faults else ": nothing withheld, nothing invented"
        st.markdown(f":gray[:material/gavel: Judged by {judge_words(judged)}{nothing}{dropped}]")
        for one in faults:
            what, where = f"“{plain(one.words)}”", f"Message {(one.turn or 0) + 1}:"
            if one.kind == "withheld":
                badge = ":orange-badge[:material/visibility_off: Withheld]"
                st.markdown(f"{badge} {where} asked {what}, the patient kept back :gray[{plain(one.fact_text)}]")
            else:
                how = f"contradicts: {plain(one.fact_text)}" if one.fact_text else "is nowhere in the case"
                st.markdown(f":orange-badge[:material/warning: Invented] {where} {what} :gray[{how}]")
    if not known:
        st.markdown(":gray-badge[:material/gavel: Not judged] What became of the facts no rule decides.")
    with st.expander("Have a model judge the facts of this conversation", icon=":material/gavel:"):
        if trial_id is None:
            st.caption("It can be judged once the trial has come to its end and is stored.")
        else:
            draw_form(key, trials=(trial_id,))


def draw_form(key: str, **scope: Any) -> None:
    """Draw the form that has conversations judged, or how far a judging is; ``scope`` as ``FactsJudging`` takes it."""
    if draw_job(FactsJudging, f"{key}_work", FactsJudging("", **scope).apart):
        return
    left, middle, right = st.columns([3, 3, 2], vertical_alignment="bottom")
    with left:
        model = ask_seat(f"{key}_facts", "grader", label="Model that judges")
    if not is_model(model):
        st.caption("Choose a language model: rules cannot judge this.")
        return
    with middle:
        address = ask_address(f"{key}_facts")
    budget = ask_budget(f"{key}_facts_budget", right)
    if problem := seat_problem(CastNames("reference", grader=model), address):
        st.warning(plain(problem), icon=":material/key:")
        return
    draw_start(FactsJudging(model, base_url=address, **scope), "Judge", "gavel", f"{key}_facts_go", budget)
