"""The facts of a case: the ledger of what came of them in a conversation, a model's marks beside it, and their editing.

Facts are made by rule, by a model, or edited by hand; a saved list counts for its case on every page. And what models
judged that patients withheld and invented, whose word counts, and the way to have a model judge it.
"""

import functools
import hashlib
from collections.abc import Sequence

import pandas as pd
import streamlit as st

from core.agents.ledger_models import FactJudge, FactSplitter, Judged, JudgedPatient, Mark, SplitFacts
from core.asking.scene import Turn
from core.case import Case
from core.events import Event, Started, Utterance
from core.figures.curves import Point, curves
from core.figures.style import Axis
from core.frameworks.casting import CastNames, is_model
from core.jobs.judging import FactsJudging
from core.measures.failures import beside_people
from core.measures.ledger.marks import MEASURED, Ledger, coverage, disagreements, ledger
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

_MARK: dict[Mark, str] = {"asked": "✓ Asked", "volunteered": "↑ Volunteered", "never_elicited": "✗ Never elicited"}
_INK: dict[Mark, tuple[str, str]] = {
    "asked": ("#00694A", "#3DCB9B"),
    "volunteered": ("#005C8F", "#7CC4EE"),
    "never_elicited": ("#B03A00", "#FF8A50"),
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


def ledger_of(case: Case, events: Sequence[Event]) -> Ledger:
    """Return the marks of a conversation on the facts that are in use for its case."""
    dialogue = tuple(Turn(e.role, e.text) for e in events if isinstance(e, Utterance))
    return _ledger(case, dialogue, facts_in_use(case))


_ledger = functools.lru_cache(maxsize=64)(ledger)


def trial_of(events: Sequence[Event]) -> str | None:
    """Return the trial whose events these are; ``None`` where it did not come to its end."""
    started = next((event for event in events if isinstance(event, Started)), None)
    over = any(event.kind == "finished" for event in events)
    return started.trial_id if started is not None and over else None


def draw_facts_ledger(case: Case, events: Sequence[Event], key: str) -> None:
    """Draw the ledger of a conversation: its figures, coverage over turns, every fact, and what a model judged."""
    said = [event for event in events if isinstance(event, Utterance)]
    if not any(event.role == "patient" for event in said):
        st.info("The patient has said nothing in this trial, so there is no ledger.", icon=":material/fact_check:")
        return
    found = ledger_of(case, events)
    judged = next(iter(judged_here(trial_of(events))), None)
    told = [mark.mark for mark in found.marks if mark.fact.told]
    figures: dict[str, tuple[int | str, str]] = {
        "Asked": (f"{told.count('asked')} of {len(told)}", "Facts that the doctor asked for."),
        "Volunteered": (told.count("volunteered"), "Told by the patient without being asked."),
        "Never elicited": (told.count("never_elicited"), "Facts that a patient can tell."),
        "Withheld": (
            len(judged.of("withheld")) if judged else "–",
            "Facts asked for and kept back, by a model; – not judged.",
        ),
        "Invented": (
            len(judged.of("invented")) if judged else "–",
            "What the case does not support, by a model; – not judged.",
        ),
    }
    with st.container(border=True, horizontal=True):
        for label, (value, words) in figures.items():
            st.metric(label, value, help=words, width="content")
    points = [Point("told", turn + 1, share) for turn, share in coverage(found)]
    draw_figure(
        lambda dark: curves(
            points,
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
        f"One conversation on {case.case_key}; {len(told)} facts that a patient can tell, marked by rules on words.",
    )
    _draw_facts(found, said, key)
    for turn in found.leaked:
        st.markdown(f":red-badge[:material/lock_open: Leaked] In message {turn + 1} the patient named the diagnosis.")
    draw_patient(trial_of(events), key)
    _draw_model_marks(found, [Turn(event.role, event.text) for event in said], key)
    _draw_editor(case, key)


def facts_frame(found: Ledger) -> pd.DataFrame:
    """Return every fact with its mark; messages are counted from 1."""
    return pd.DataFrame(
        [
            {
                "Mark": _MARK[mark.mark] if mark.fact.told or mark.turn is not None else "– Not for the patient",
                "Asked in": "–" if mark.question_turn is None else str(mark.question_turn + 1),
                "Told in": "–" if mark.turn is None else str(mark.turn + 1),
                "Fact": f"{mark.fact.key[:1].upper()}{mark.fact.key[1:]}: {mark.fact.text}",
                "Topic": mark.fact.topic,
            }
            for mark in found.marks
        ]
    )


def _draw_facts(found: Ledger, said: Sequence[Utterance], key: str) -> None:
    """Draw the facts; a chosen one shows the messages that asked for it and told it."""
    frame = facts_frame(found)
    inks = {_MARK[name]: ink[is_dark()] for name, ink in _INK.items()}
    chosen = f"{key}_fact"
    draw_table(
        frame,
        f"{key}_facts",
        {
            "Fact": st.column_config.TextColumn(width="large"),
            "Mark": st.column_config.TextColumn(width=118),
            "Asked in": st.column_config.TextColumn(
                help="The doctor's message that asked for it. Of a fact that never came up: the first that asked for "
                "just this.",
                width=58,
            ),
            "Told in": st.column_config.TextColumn(help="The patient's message that told it.", width=52),
        },
        on_row=lambda row: st.session_state.update({chosen: row}),
        styled=lambda rows: rows.style.map(lambda mark: f"color: {inks.get(mark, '')}", subset=["Mark"]),
        height="content" if len(frame) <= 10 else 400,
        download="",
        alt="Facts of the case with their marks",
    )
    st.caption(
        "Choose a fact to see the messages behind its mark. Facts that only examination or tests show are not for the "
        f"patient to tell and stand outside the figures. {measured_words()}"
    )
    place = st.session_state.get(chosen)
    if place is None or place >= len(found.marks):
        return
    mark = found.marks[place]
    turns = {mark.question_turn, mark.turn}
    if mark.turn is None and mark.question_turn is not None:
        turns.add(mark.question_turn + 1)  # the answer that did not tell it
    st.markdown(f"**{plain(mark.fact.text)}** :gray[· as a patient says it: {plain(mark.fact.lay)}]")
    if turns == {None}:
        st.caption("No message asked for it or told it.")
    for spoken in said:
        if spoken.turn in turns:
            st.caption(f"Message {spoken.turn + 1}")
            message(spoken.role, spoken.text)


def measured_words() -> str:
    """Return how often the rules for marks are right, on dialogues that they were not made for."""
    words = {mark: mark.replace("_", " ") for mark in MEASURED}
    recall = ", ".join(f"{words[mark]} {m.recall:.2f} ({m.right} of {m.by_hand})" for mark, m in MEASURED.items())
    precision = ", ".join(f"{m.precision:.2f} ({m.right} of {m.by_rule})" for m in MEASURED.values())
    return (
        "Asked, volunteered and never elicited are marked by rules on words, which miss free paraphrase: what never "
        "came up is an upper bound. Measured on eight held-out dialogues whose patients avoid the case’s words on "
        f"purpose: recall {recall}; precision {precision}."
    )


def _draw_model_marks(found: Ledger, dialogue: Sequence[Turn], key: str) -> None:
    """Draw the way to a model's marks, and where they differ from those of the rules."""
    with st.expander("Have a model mark the facts too", icon=":material/rule:"):
        facts = {mark.fact.id: mark.fact for mark in found.marks}
        subject = hashlib.sha256(repr((list(facts.values()), dialogue)).encode(errors="replace")).hexdigest()
        judged = draw_question(
            f"{key}_judge",
            "Ask for the marks",
            lambda voice, pack: FactJudge(voice, pack).judge(list(facts.values()), tuple(dialogue)),
            subject,
        )
        if not isinstance(judged, Judged):
            return
        if judged.unreadable is not None:
            st.warning(plain(judged.unreadable))
            return
        differing = disagreements(found, judged)
        agreed = len(facts.keys() - {one.fact_id for one in differing})
        st.markdown(f"Rules and model agree on **{agreed} of {len(found.marks)}** facts.")
        words: dict[str, str] = dict(_MARK.items())
        quoted = {fact.id: fact.words for fact in judged.facts}
        rows = [
            {
                "What": facts[one.fact_id].text,
                "Rules": words.get(one.rules, one.rules),
                "Model": words.get(one.judge, one.judge),
                "Message": None if one.turn is None else one.turn + 1,
                "The model quotes": quoted.get(one.fact_id, ""),
            }
            for one in differing
        ]
        if rows:
            st.dataframe(pd.DataFrame(rows), hide_index=True, placeholder="–", alt="Where rules and model differ")


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
            what, where = f"“{plain(one.words)}”", f"Message {one.turn + 1}:"
            if one.kind == "withheld":
                badge = ":orange-badge[:material/visibility_off: Withheld]"
                st.markdown(f"{badge} {where} asked {what}, the patient kept back :gray[{plain(one.fact_text)}]")
            else:
                how = f"contradicts: {plain(one.fact_text)}" if one.fact_text else "is nowhere in the case"
                st.markdown(f":orange-badge[:material/warning: Invented] {where} {what} :gray[{how}]")
    if not known:
        st.markdown(":gray-badge[:material/gavel: Not judged] What the patient withheld or invented no rule decides.")
    with st.expander("Have a model judge what the patient withheld and invented", icon=":material/gavel:"):
        if trial_id is None:
            st.caption("It can be judged once the trial has come to its end and is stored.")
        else:
            draw_form((trial_id,), key)


def draw_form(trials: Sequence[str], key: str) -> None:
    """Draw the form that has these conversations judged, or how far a judging is."""
    if draw_job(FactsJudging, f"{key}_work", trials[0] if len(trials) == 1 else ""):
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
    job = FactsJudging(model, trials=tuple(trials), base_url=address)
    draw_start(job, "Judge", "gavel", f"{key}_facts_go", budget)
