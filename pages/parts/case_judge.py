"""A model's marks of a conversation beside those of the rules, and where the two differ."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from core.agents.base import Turn
from core.agents.calls import Voice
from core.agents.ledger_models import FactJudge, Judged
from core.measures.ledger.marks import Ledger, disagreements
from core.prompts import PromptPack
from pages.parts.ask_model import draw_question
from pages.parts.look import plain


def draw_judge(found: Ledger, dialogue: Sequence[Turn], words: Mapping[Any, str], key: str) -> None:
    """Draw the way to a model's marks, and the disagreements; ``words`` say the marks."""
    with st.expander("Have a model mark the facts too", icon=":material/rule:"):
        facts = [mark.fact for mark in found.marks]

        def ask(voice: Voice, pack: PromptPack) -> object:
            return FactJudge(voice, pack).judge(facts, tuple(dialogue))

        subject = hashlib.sha256(repr((facts, dialogue)).encode(errors="replace")).hexdigest()
        judged = draw_question(f"{key}_judge", "Ask for the marks", ask, subject)  # type: ignore[arg-type]
        if isinstance(judged, Judged):
            _draw_judged(found, judged, words)


def _draw_judged(found: Ledger, judged: Judged, words: Mapping[str, str]) -> None:
    if judged.unreadable is not None:
        st.warning(plain(judged.unreadable))
        return
    differing = disagreements(found, judged)
    agreed = sum(mark.fact.id not in {d.fact_id for d in differing} for mark in found.marks)
    st.markdown(f"Rules and model agree on **{agreed} of {len(found.marks)}** facts.")
    if differing:
        facts = {mark.fact.id: mark.fact.text for mark in found.marks}
        rows = [
            {
                "What": facts[d.fact_id],
                "Rules": words.get(d.rules, d.rules), "Model": words.get(d.judge, d.judge),
                "Message": None if d.turn is None else d.turn + 1,
            }
            for d in differing
        ]  # fmt: skip
        st.dataframe(pd.DataFrame(rows), hide_index=True, placeholder="–", alt="Where rules and model differ")
