"""What stands behind each name of a figure: its condition in a table, and what differs between those shown."""

from collections.abc import Mapping, Sequence

import streamlit as st

from core.measures.provenance import differing, side_by_side
from core.store.conditions import PARTS, Condition, Part
from pages.kit.names import dataset_name, model_name
from pages.kit.stored import run_casts

_HEADS: dict[Part, str] = {
    "study": "Study", "data_set": "Data set", "framework": "Framework", "case_set": "Cases",
    "doctor_prompt": "Doctor’s prompt",
    "prompts": "Prompts", "sampling": "Sampling", "cap": "Cap", "patient": "Patient", "persona": "Persona",
    "pictures": "Pictures", "summariser": "Summariser", "solver": "Solver", "staff": "Staff", "grader": "Grader",
    "reader": "Choice reader", "version": "Version",
}  # fmt: skip
_SAID = ("prompts", "cap", "patient", "persona", "summariser", "solver", "staff", "grader", "choice reader", "version")
"""Words with which a condition's part begins and which stand over its column already."""


def draw_conditions(names: Mapping[str, str], found: Sequence[Condition]) -> None:
    """Draw, folded, the condition behind each of the names that a page shows; parts that none has are left out."""
    shown = [one for one in found if one.name in names]
    if not shown:
        return
    parts = [part for part in PARTS if any(one.parts.get(part) for one in shown)]
    rows = [
        {"Name": names[one.name], **{_HEADS[part]: _words(one, part) for part in parts}, "Runs": ", ".join(one.runs)}
        for one in shown
    ]
    if any(one.remarks for one in shown):
        rows = [{**row, "Notes": "; ".join(one.remarks)} for row, one in zip(rows, shown, strict=True)]
    with st.expander("What stands behind each name: framework, cases, patient, grader …", icon=":material/tune:"):
        st.dataframe(rows, hide_index=True, column_config={"Name": st.column_config.TextColumn(pinned=True)})


def draw_what_differs(names: Mapping[str, str], found: Sequence[Condition], what: str) -> None:
    """Draw, folded, in which settings the conditions of these names differ beside their doctors."""
    behind = {one.name: one.runs for one in found if one.name in names}
    sides = [[run for run in run_casts() if run.run_id in behind[name]] for name in names if name in behind]
    settings = side_by_side(sides)
    # of one name, what differs between its own runs
    apart = differing(settings) if len(sides) > 1 else [s for s in settings if any(" / " in v for v in s.values)]
    if apart:
        heads = [names[name] for name in names if name in behind]
        differ = ", ".join(setting.name.lower() for setting in apart)
        with st.expander(f"What else differs between {what}: {differ}", icon=":material/difference:"):
            st.dataframe([{"": s.name, **dict(zip(heads, s.values, strict=True))} for s in apart], hide_index=True)


def _words(one: Condition, part: Part) -> str:
    words = one.parts.get(part, "")
    if part == "data_set":
        return dataset_name(words)
    head = next((head for head in _SAID if words.startswith(f"{head} ")), "")
    return " and ".join(model_name(piece.removeprefix(f"{head} ")) for piece in words.split(" and "))
