"""The questions of a form next to a conversation, with the answers and quoted words of stored judges."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from core.case import Case
from core.events import Event, Started, Utterance
from core.jobs.judge import Judging
from core.judging.form import RUBRIC, Form
from core.judging.form import forms as form_files
from core.judging.rules import RULE_JUDGE
from core.measures.rubrics.reading import (
    LEAST_JUDGED,
    Outcome,
    conversation_score,
    met_of_judged,
    read_outcomes,
    read_rubric_outcomes,
    status_words,
)
from core.reviews.rubrics import rubric_entries
from core.store.database import Store
from core.store.queries.judgements import judgements
from core.store.review_records import AnnotatedItem
from core.store.selection import Selection
from pages.kit.cached import ask, cached_query, read
from pages.kit.controls import choose
from pages.kit.jobs import draw_judging
from pages.kit.look import plain
from pages.kit.messages import Mark, draw_messages
from pages.kit.names import model_name
from pages.kit.tables import draw_table


@cached_query(entries=32)
def forms_for(case_key: str, specialty: str, judged: tuple[str, ...]) -> dict[str, Form]:
    """Return name → form: the rubrics with criteria for a case, and the forms by which its conversation is judged."""
    rubrics = {entry.form.name: entry.form for entry in rubric_entries(Store()).values()}
    forms = {**rubrics, **{name: form for name in judged if (form := form_files().get(name)) and not form.of_facts}}
    return {name: form for name, form in forms.items() if form.questions_for(case_key, specialty)}


def trial_of(events: Sequence[Event]) -> str | None:
    """Return the id of the trial with these events; ``None`` if the trial has not finished."""
    started = next((event for event in events if isinstance(event, Started)), None)
    over = any(event.kind == "finished" for event in events)
    return started.trial_id if started is not None and over else None


def draw_verdicts(case: Case | None, events: Sequence[Event], key: str) -> None:
    """Draw the questions of a form about a conversation with a judge's answers, and the form that starts judging."""
    trial_id = trial_of(events)
    subject = str(AnnotatedItem("talk", trial_id or ""))
    judged = {judgement.form for judgement in ask(judgements, subjects=[subject], kinds=("model", "rule"))}
    # what is imported without a case still names one
    named = next((event.case_key for event in events if isinstance(event, Started)), "")
    about = (case.case_key, case.specialty or "") if case else (named, "")
    forms = forms_for(*about, tuple(sorted(judged)))
    if not forms:
        st.info("No rubric has criteria for this case. Import one on Cases, under Rubrics.")
        return
    titles = {name.removeprefix(RUBRIC): form.title for name, form in forms.items()}
    name = choose("Rubric", list(titles), f"{key}_rubric", names=titles) if len(forms) > 1 else next(iter(titles))
    form = forms.get(f"{RUBRIC}{name}") or forms[name]
    outcomes = _stored_outcomes(trial_id, form, key)
    questions = form.questions_for(*about)
    draw_questions(outcomes or [Outcome(question, "unjudged", "no request") for question in questions], events, key)
    with st.expander("Have a model judge these questions", icon=":material/gavel:", expanded=not outcomes):
        if trial_id is None:
            st.caption("It can be judged when the trial has ended and is stored.")
        elif "model" not in form.by:
            st.caption("Only the doctor’s own model answers this form.")
        else:
            rule = (RULE_JUDGE, BY_RULE) if form.name.startswith(RUBRIC) else None
            draw_judging(Judging(form.name, trials=(trial_id,)), f"{key}_rubric", rule)


def _stored_outcomes(trial_id: str | None, form: Form, key: str) -> Sequence[Outcome]:
    """Return the outcomes under the chosen judge, with the totals of points drawn; empty if nobody has judged."""
    selection = Selection(trials=(trial_id,)) if trial_id else Selection()
    if trial_id is None or not (available := list(read(read_outcomes, selection, form.name, people=False).available)):
        return ()
    name = choose("Judge", available, f"{key}_judge", names=model_name) if len(available) > 1 else available[0]
    conversation = next(iter(read(read_outcomes, selection, form.name, name, people=False).conversations), None)
    if conversation is None:
        return ()
    score = conversation_score(conversation)
    musts, must_nots = (
        [outcome for outcome in conversation.outcomes if outcome.criterion.priority == priority]
        for priority in ("must", "must not")
    )
    unjudged = sum(outcome.status == "unjudged" for outcome in conversation.outcomes)
    figures = {
        "Score": (
            "–" if score is None else f"{score:.2f}",
            f"Points met of the points that could be reached; a dash if less than {LEAST_JUDGED:.0%} are judged.",
        ),
        "Musts met": (met_of_judged(musts), "What must happen, of the judged criteria."),
        "Must-nots": (met_of_judged(must_nots), "What must not happen and did, of the judged criteria."),
        "Unjudged": (str(unjudged), "They leave both sums of the score."),
    }
    if any(outcome.points for outcome in conversation.outcomes):
        with st.container(border=True, horizontal=True):
            for label, (value, words) in figures.items():
                st.metric(label, value, help=words, width="content")
    st.caption(f":material/gavel: Judged by {plain(model_name(name))}.")
    return conversation.outcomes


def questions_frame(outcomes: Sequence[Outcome]) -> pd.DataFrame:
    frame = pd.DataFrame(
        {
            "Verdict": status_words(outcome.criterion, outcome.status),
            "Criterion": outcome.criterion.wording,
            "Messages": ", ".join(
                str(number + 1)
                for number in dict.fromkeys(q.message for q in outcome.quotations if q.state != "unverified")
            )
            or "–",
            "Points": outcome.criterion.points,
            "Priority": outcome.criterion.priority,
            "Axis": outcome.criterion.axis,
        }
        for outcome in outcomes
    )
    return frame if any(outcome.points for outcome in outcomes) else frame[["Verdict", "Criterion", "Messages"]]


def draw_questions(outcomes: Sequence[Outcome], events: Sequence[Event], key: str) -> None:
    """Draw the questions as a table; a chosen one shows the judge's reason and the quoted messages."""
    chosen = f"{key}_criterion"
    frame = questions_frame(outcomes)
    draw_table(
        frame,
        f"{key}_criteria",
        {
            "Criterion": st.column_config.TextColumn(width="large"),
            "Verdict": st.column_config.TextColumn(width=128),
            "Points": st.column_config.NumberColumn(format="%g", width=60),
        },
        on_row=lambda row: st.session_state.update({chosen: row}),
        marked=st.session_state.get(chosen),
        height="content" if len(frame) <= 15 else 480,
        download="",
        alt="Questions with their verdicts",
    )
    st.caption("Choose a line to read the quoted messages.")
    place = st.session_state.get(chosen)
    if place is None or place >= len(outcomes):
        return
    outcome = outcomes[place]
    st.markdown(f"**{plain(outcome.criterion.wording)}** :gray[· {status_words(outcome.criterion, outcome.status)}]")
    if outcome.criterion.when:
        st.caption(f"It applies only if: {plain(outcome.criterion.when)}")
    if words := " · ".join(filter(None, [outcome.why, outcome.reason])):
        st.markdown(f":gray[{plain(words)}]")
    messages = sorted((event for event in events if isinstance(event, Utterance)), key=lambda message: message.turn)
    marks = []
    for quotation in outcome.quotations:
        if quotation.state == "unverified" or not 0 <= quotation.message < len(messages):
            st.markdown(f":orange-badge[:material/warning: In no message] “{plain(quotation.words)}”")
        else:
            marks.append(Mark(quotation.words, messages[quotation.message].turn))
    quoted = {mark.turn for mark in marks}
    draw_messages([message for message in messages if message.turn in quoted], marks)


BY_RULE = (
    "A rule judges only findings and the final diagnosis. For other criteria choose a language model of another maker."
)


def statuses(trial_id: str) -> dict[str, str]:
    """Return criterion → status of a stored conversation under the newest judge of the rubric that was judged last."""
    reading = read(read_rubric_outcomes, Selection(trials=(trial_id,)))
    judged = reading.conversations if reading.judges else []
    return {o.criterion.wording: status_words(o.criterion, o.status) for played in judged for o in played.outcomes}


def changes_in_words(first: str, second: str, names: tuple[str, str]) -> list[str]:
    """Return a line for each criterion on which the verdicts of two judged conversations on one case differ."""
    before, after = statuses(first), statuses(second)
    return [
        f"- **{plain(criterion)}**: {old} :gray[{names[0]}] → {new} :gray[{names[1]}]"
        for criterion, old in before.items()
        if (new := after.get(criterion, old)) != old
    ]
