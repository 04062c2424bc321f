"""Versions of one model in order: what each step changed in every arm, and what rose and what fell."""

import streamlit as st

from core.stats.corrections import LABELS
from core.store.database import Store
from pages.parts.figures import label_of, model_colours, model_name
from pages.parts.look import arm, plain
from pages.parts.monitoring_charts import groups_chart, versions_chart
from pages.parts.monitoring_data import (
    apart_from_bars,
    bars,
    courses_table,
    held_models,
    published_table,
    steps_table,
    version_courses,
    version_steps,
    what_differs,
)
from pages.parts.navigation import require_app

require_app()

_FIRST = ("mistral_v1_7b", "mistral_v2_7b")
_CHART = {"displaylogo": False, "toImageButtonOptions": {"format": "svg", "filename": "monitoring"}}
_RULES = {"mcq_loose": "Paper’s substring rule", "mcq_strict": "Exactly one choice"}


def by_label(names: list[str]) -> dict[str, str]:
    """Return label → full name: what the address holds stays the same whoever ran the model."""
    return {**{label: label for label in _FIRST}, **{label_of(name): name for name in names}}


def draw_groups(versions: tuple[str, ...]) -> None:
    """Draw one arm by specialty."""
    found = version_steps(Store().version, versions, True, correction, rule)
    arms = list(dict.fromkeys((step.format, step.question_type) for step in found))
    if not arms:
        return
    st.subheader("By specialty", anchor=False)
    words = {arm(*name): name for name in arms}
    chosen = st.selectbox("Arm", list(words), key="monitoring_arm", bind="query-params")
    pairs = list(dict.fromkeys((step.before, step.after) for step in found))
    for before, after in pairs:
        if len(pairs) > 1:
            st.caption(f"{model_name(before)} → {model_name(after)}")
        shown = [
            s for s in found if (s.before, s.after) == (before, after) and arm(s.format, s.question_type) == chosen
        ]
        st.plotly_chart(groups_chart(shown), config=_CHART, key=f"groups_{before}_{after}")
    st.caption(
        f"Dots with 95 % intervals over cases; green rose and orange fell at adjusted p ≤ 0.05 ({LABELS[correction]} "
        f"over all {len(found)} tests of arms and specialties)."
    )


st.title("Monitoring", anchor=False)
st.caption("Versions of one model in order, each compared with the one before it, paired by case.")
left, middle, right = st.columns([4, 2, 2])
with right:
    rule = st.selectbox("Rule for choices", list(_RULES), format_func=_RULES.__getitem__, key="monitoring_rule",
                        bind="query-params")  # fmt: skip
with middle:
    correction = st.selectbox("Correction", list(LABELS), format_func=LABELS.__getitem__, key="monitoring_correction",
                              bind="query-params")  # fmt: skip
known = by_label(held_models(rule))
with left:
    labels = st.multiselect("Versions, in order", list(known), default=list(_FIRST), format_func=model_name,
                            key="monitoring_versions", bind="query-params")  # fmt: skip
versions = [known[label] for label in labels]
if len(versions) < 2:
    st.info("Choose at least two versions, the older one first.", icon=":material/timeline:")
    st.stop()
shown = bars(versions, rule)
colours = model_colours(versions)
st.plotly_chart(versions_chart(shown, {v: model_name(v) for v in versions}, colours), config=_CHART, key="versions")
if any(bar.published for bar in shown):
    st.info(
        "Hatched bars are the published figures of CRAFT-MD. To test differences and read the conversations behind "
        "them, import the authors' release: `python -m core import craftmd PATH`, or run the models yourself.",
        icon=":material/menu_book:",
    )
    published = published_table(shown, versions)
    st.dataframe(published, hide_index=True)
    st.download_button("Download as CSV", published.to_csv(index=False), "monitoring-published.csv", "text/csv",
                       icon=":material/download:", key="monitoring_published")  # fmt: skip
steps = version_steps(Store().version, tuple(versions), False, correction, rule)
if steps:
    rose = [arm(s.format, s.question_type) for s in steps if s.verdict == "rose"]
    fell = [arm(s.format, s.question_type) for s in steps if s.verdict == "fell"]
    st.markdown(f"**Rose:** {', '.join(rose) or 'nothing'}.  \n**Fell:** {', '.join(fell) or 'nothing'}.")
    table = steps_table(steps, correction)
    st.dataframe(table, hide_index=True)
    apart = apart_from_bars(steps, shown)
    st.caption(
        "Before and after: on the cases for which both versions have an answer that counts. The bars, and the page "
        "Accuracy, take all cases of a version." + (" Where that makes a difference:" if apart else "")
    )
    if apart:
        st.markdown("\n".join(f"- {plain(line)}" for line in apart))
    st.download_button("Download as CSV", table.to_csv(index=False), "monitoring.csv", "text/csv",
                       icon=":material/download:")  # fmt: skip
    courses = courses_table(versions, version_courses(Store().version))
    if not courses.empty:
        st.subheader("How the conversations went", anchor=False)
        shares = {name: st.column_config.NumberColumn(format="percent") for name in courses.columns[3:]}
        st.dataframe(courses, hide_index=True, column_config=shares)
    differing = what_differs(Store().version, tuple(versions))
    if differing:
        with st.expander("What else differs between these versions", icon=":material/difference:"):
            for setting in differing:
                st.markdown(f"**{setting.name}:** " + " → ".join(f"`{value}`" for value in setting.values))
    draw_groups(tuple(versions))
