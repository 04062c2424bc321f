"""The facts of a case as they are in use: by rule, made by a model, or edited by hand, and kept beside the case."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from core.agents.calls import Voice
from core.agents.ledger_models import FactSplitter, SplitFacts
from core.case import Case
from core.errors import AnamnesisError
from core.prompts import PromptPack
from core.store.database import Store
from core.store.queries.facts import FactSet, facts_saved, save_facts
from core.text.facts import AtomicFact, facts_of, with_ids
from core.text.topics import TOPICS
from pages.parts.ask_model import draw_question
from pages.parts.look import plain

_BY_RULE = "rules"
_BY_HAND = "a person"


def facts_in_use(case: Case) -> tuple[AtomicFact, ...]:
    """Return the facts of a case that are in use: the newest saved ones, else those by rule."""
    saved = saved_facts(case)
    return facts_of(case, saved.facts if saved else None)


def saved_facts(case: Case) -> FactSet | None:
    """Return the newest list saved for a case."""
    store = Store()
    return _saved(str(store.path), store.version, case.case_key, case.content_hash, case)


@st.cache_resource(max_entries=64, show_spinner=False)
def _saved(path: str, version: str, case_key: str, content_hash: str, _case: Case) -> FactSet | None:
    with Store().read() as cursor:
        return facts_saved(cursor, _case)


def draw_fact_editor(case: Case, key: str) -> None:
    """Draw the editor of a case's facts, and the way to have a model take the vignette apart."""
    with st.expander("Edit the facts of this case", icon=":material/edit_note:"):
        saved = saved_facts(case)
        made_by = saved.made_by if saved else "its profile" if case.profile else "rules on the vignette"
        st.caption(f"These facts were made by {plain(made_by)}. A saved list counts for this case on every page.")
        proposed = _proposed(case, key)
        facts = proposed or facts_in_use(case)
        edited = st.data_editor(
            facts_table(facts), num_rows="dynamic", hide_index=True, key=f"{key}_edit_{_stamp(facts)}",
            column_order=["Label", "Fact", "As the patient says it", "Patient can tell", "Topic"],
            column_config={
                "Topic": st.column_config.SelectboxColumn(options=list(TOPICS), required=True),
                "Fact": st.column_config.TextColumn(required=True, width="large"),
                "Patient can tell": st.column_config.CheckboxColumn(help="Off: only examination or tests show it."),
            },
        )  # fmt: skip
        with st.container(horizontal=True):
            if st.button("Save these facts", key=f"{key}_save", type="primary"):
                _save(case, facts_from(edited), proposed_by(key) if proposed is not None else _BY_HAND)
            if saved and saved.made_by != _BY_RULE and st.button("Back to the rules", key=f"{key}_rules"):
                _save(case, facts_of(case), _BY_RULE)


def _proposed(case: Case, key: str) -> tuple[AtomicFact, ...] | None:
    """Let a model take the vignette apart; its facts are a proposal until they are saved."""
    if not st.toggle("Take the vignette apart with a model", key=f"{key}_split"):
        return None

    def ask(voice: Voice, pack: PromptPack) -> object:
        return FactSplitter(voice, pack).split(case)

    found = draw_question(f"{key}_splitter", "Split with the model", ask, case.content_hash)  # type: ignore[arg-type]
    if not isinstance(found, SplitFacts):
        return None
    if found.unreadable:
        st.warning(plain(found.unreadable))
        return None
    if found.rejected:
        st.caption(f"Facts rejected because their words are not in the vignette: {len(found.rejected)}.")
    return found.facts


def proposed_by(key: str) -> str:
    """Return the model that made the proposal."""
    _, session = st.session_state.get("model_questions", {}).get(f"{key}_splitter", ("", None))
    return session.title if session is not None else _BY_HAND


def facts_table(facts: Sequence[AtomicFact]) -> pd.DataFrame:
    """Return facts as the editor shows them; the id comes along unseen."""
    return pd.DataFrame(
        [
            {
                "id": fact.id, "Label": fact.key, "Fact": fact.text, "As the patient says it": fact.lay,
                "Patient can tell": fact.told, "Topic": fact.topic,
            }
            for fact in facts
        ]
    )  # fmt: skip


def facts_from(edited: pd.DataFrame) -> tuple[AtomicFact, ...]:
    """Return the edited facts; rows without a fact are left out, new ones get an id of their own."""
    made = []
    for row in edited.fillna("").to_dict("records"):
        text = str(row["Fact"]).strip()
        if text:
            topic = row["Topic"] if row["Topic"] in TOPICS else "other"
            made.append(
                AtomicFact(
                    id=str(row["id"] or text), key=str(row["Label"] or topic), text=text, topic=topic,
                    lay=str(row["As the patient says it"] or text), told=bool(row["Patient can tell"]),
                )
            )  # fmt: skip
    return with_ids(made)


def _save(case: Case, facts: Sequence[AtomicFact], made_by: str) -> None:
    if not facts:
        st.warning("A list without facts would mark nothing: keep at least one.")
        return
    try:
        with Store().write() as connection:
            save_facts(connection, case, facts, made_by)
    except AnamnesisError as error:
        st.error(plain(str(error)))
        return
    st.rerun()


def _stamp(facts: Sequence[AtomicFact]) -> int:
    """Return a number for a list of facts, so that the editor begins anew with another one."""
    return abs(hash(tuple(facts)))
