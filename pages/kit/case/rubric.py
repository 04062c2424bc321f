"""A rubric next to a conversation: its criteria with the verdicts and quoted words of stored judges."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from core.case import Case
from core.events import Event, Utterance
from core.jobs.judge import Judging
from core.judging.form import RUBRIC
from core.judging.judgement import Quotation
from core.judging.rubric import Criterion
from core.judging.words_rule import RULE_JUDGE
from core.measures.rubrics.reading import RubricReading, read_rubric_outcomes
from core.measures.rubrics.scores import LEAST_JUDGED, Outcome, conversation_score, judges_in
from core.reviews.rubrics import rubric_entries
from core.store.database import Store
from core.store.selection import Selection
from pages.kit.cached import cached_query, read
from pages.kit.case.facts import trial_of
from pages.kit.chat import bubble, marked
from pages.kit.controls import choose
from pages.kit.jobs import draw_judging
from pages.kit.look import plain
from pages.kit.names import model_name
from pages.kit.tables import draw_table

_STATUS = {
    "met": "✓ Met", "not met": "✗ Not met", "not applicable": "– Does not apply", "unjudged": "? Unjudged",
}  # fmt: skip
_MUST_NOT = {"met": "✗ Happened", "not met": "✓ Did not happen"}


@cached_query(entries=32)
def rubrics_for(case_key: str, specialty: str) -> dict[str, tuple[str, tuple[Criterion, ...]]]:
    """Return rubric → its title and its criteria for a case, without rubrics that have none."""
    entries = [entry.rubric for entry in rubric_entries(Store())]
    of_case = {r.name: (r.title or r.name, r.criteria_for(case_key, specialty)) for r in entries}
    return {name: (title, criteria) for name, (title, criteria) in of_case.items() if criteria}


def _ask_rubric(case: Case, key: str) -> str | None:
    rubrics = rubrics_for(case.case_key, case.specialty or "")
    if not rubrics:
        st.info("No rubric has criteria for this case. Import one on Data, under Rubrics.")
        return None
    if len(rubrics) == 1:
        return next(iter(rubrics))
    return choose("Rubric", list(rubrics), f"{key}_rubric", names=lambda name: rubrics[name][0])


def status_words(criterion: Criterion, status: str) -> str:
    return _MUST_NOT.get(status, _STATUS[status]) if criterion.priority == "must not" else _STATUS[status]


def draw_rubric(case: Case, events: Sequence[Event], key: str) -> None:
    """Draw the criteria of a case with the stored verdicts of a judge, and the form that starts judging."""
    rubric = _ask_rubric(case, key)
    if rubric is None:
        return
    trial_id = trial_of(events)
    outcomes = _stored_outcomes(trial_id, rubric, key)
    criteria = rubrics_for(case.case_key, case.specialty or "")[rubric][1]
    _draw_criteria(outcomes or [Outcome(criterion, "unjudged", "no request") for criterion in criteria], events, key)
    with st.expander("Have a model judge these criteria", icon=":material/gavel:", expanded=not outcomes):
        if trial_id is None:
            st.caption("It can be judged when the trial has ended and is stored.")
        else:
            _draw_form(key, rubric, trial_id)


def _stored_outcomes(trial_id: str | None, rubric: str, key: str) -> Sequence[Outcome]:
    """Return the outcomes under the chosen judge, with its totals drawn; empty if nobody has judged."""
    if trial_id is None or not _reading(trial_id, rubric, None).judges:
        return ()
    available = list(read(_judge_names, trial_id, rubric))
    name = choose("Judge", available, f"{key}_judge", names=model_name) if len(available) > 1 else available[0]
    reading = _reading(trial_id, rubric, name)
    conversation = next(iter(reading.conversations), None)
    if conversation is None:
        return ()
    score = conversation_score(conversation)
    musts, must_nots = (
        [outcome for outcome in conversation.outcomes if outcome.criterion.priority == priority]
        for priority in ("must", "must not")
    )
    figures = {
        "Score": (
            "–" if score is None else f"{score:.2f}",
            f"Points met of the points that could be reached; a dash if less than {LEAST_JUDGED:.0%} are judged.",
        ),
        "Musts met": (met_of_judged(musts), "What must happen, of the judged criteria."),
        "Must-nots": (met_of_judged(must_nots), "What must not happen and did, of the judged criteria."),
        "Unjudged": (
            str(sum(o.status == "unjudged" for o in conversation.outcomes)),
            "They leave both sums of the score.",
        ),
    }
    with st.container(border=True, horizontal=True):
        for label, (value, words) in figures.items():
            st.metric(label, value, help=words, width="content")
    st.caption(f":material/gavel: Judged by {plain(model_name(name))}.")
    return conversation.outcomes


def met_of_judged(outcomes: Sequence[Outcome]) -> str:
    """Return how many are met of those that are judged, and how many are not judged: ``1 of 2, 3 not judged``."""
    judged = [outcome for outcome in outcomes if outcome.status in ("met", "not met")]
    unjudged = sum(outcome.status == "unjudged" for outcome in outcomes)
    words = f"{sum(outcome.status == 'met' for outcome in judged)} of {len(judged)}" if judged else "–"
    return f"{words}, {unjudged} not judged" if unjudged else words


def _judge_names(store: Store, trial_id: str, rubric: str) -> tuple[str, ...]:
    return tuple(judges_in(read_rubric_outcomes(store, Selection(trials=(trial_id,)), rubric).verdicts))


def _reading(trial_id: str, rubric: str, judge: str | None) -> RubricReading:
    return read(read_rubric_outcomes, Selection(trials=(trial_id,)), rubric, judge)


def criteria_frame(outcomes: Sequence[Outcome]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "Verdict": status_words(outcome.criterion, outcome.status),
            "Criterion": outcome.criterion.criterion,
            "Messages": ", ".join(str(n + 1) for n in dict.fromkeys(q.message for q in _verified(outcome))) or "–",
            "Points": outcome.criterion.points,
            "Priority": outcome.criterion.priority,
            "Axis": outcome.criterion.axis,
        }
        for outcome in outcomes
    )


def _verified(outcome: Outcome) -> list[Quotation]:
    return [quotation for quotation in outcome.quotations if quotation.state != "unverified"]


def _draw_criteria(outcomes: Sequence[Outcome], events: Sequence[Event], key: str) -> None:
    """Draw the criteria as a table; a chosen one shows the judge's reason and the quoted messages."""
    chosen = f"{key}_criterion"
    frame = criteria_frame(outcomes)
    draw_table(
        frame,
        f"{key}_criteria",
        {
            "Criterion": st.column_config.TextColumn(width="large"),
            "Verdict": st.column_config.TextColumn(width=128),
            "Points": st.column_config.NumberColumn(format="%g", width=60),
        },
        on_row=lambda row: st.session_state.update({chosen: row}),
        height="content" if len(frame) <= 15 else 480,
        download="",
        alt="Criteria of the rubric with their verdicts",
    )
    st.caption("Choose a criterion to read the quoted messages.")
    place = st.session_state.get(chosen)
    if place is None or place >= len(outcomes):
        return
    outcome = outcomes[place]
    st.markdown(f"**{plain(outcome.criterion.criterion)}** :gray[· {status_words(outcome.criterion, outcome.status)}]")
    if outcome.criterion.when:
        st.caption(f"It applies only if: {plain(outcome.criterion.when)}")
    if words := " · ".join(filter(None, [outcome.why, outcome.reason])):
        st.markdown(f":gray[{plain(words)}]")
    messages = {event.turn: event for event in events if isinstance(event, Utterance)}
    order = sorted(messages)
    for quotation in outcome.quotations:
        turn = order[quotation.message] if 0 <= quotation.message < len(order) else None
        if quotation.state == "unverified" or turn is None:
            st.markdown(f":orange-badge[:material/warning: In no message] “{plain(quotation.words)}”")
            continue
        st.caption(f"Message {quotation.message + 1}")
        with bubble(messages[turn].role):
            st.markdown(marked(messages[turn].text, quotation.words))


def _draw_form(key: str, rubric: str, trial_id: str) -> None:
    def make(model: str, address: str | None) -> Judging:
        return Judging(f"{RUBRIC}{rubric}", (model,), trials=(trial_id,), base_url=address)

    instance = make(RULE_JUDGE, None).instance
    draw_judging(Judging, make, f"{key}_rubric", instance, (RULE_JUDGE, BY_RULE))


BY_RULE = (
    "A rule on words judges only questions about findings and the final diagnosis. Choose a language model for the "
    "other criteria, best of another maker than the doctors."
)


def statuses(trial_id: str) -> dict[str, str]:
    """Return criterion → status of a stored conversation under the newest judge of the rubric that was judged last."""
    reading = read(read_rubric_outcomes, Selection(trials=(trial_id,)))
    outcomes: Sequence[Any] = (
        next(iter(reading.conversations)).outcomes if reading.conversations and reading.judges else ()
    )
    return {o.criterion.criterion: status_words(o.criterion, o.status) for o in outcomes}


def changes_in_words(first: str, second: str, names: tuple[str, str]) -> list[str]:
    """Return a line for each criterion on which the verdicts of two judged conversations on one case differ."""
    before, after = statuses(first), statuses(second)
    return [
        f"- **{plain(criterion)}**: {old} :gray[{names[0]}] → {new} :gray[{names[1]}]"
        for criterion, old in before.items()
        if (new := after.get(criterion, old)) != old
    ]
