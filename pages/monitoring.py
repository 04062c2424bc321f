"""Versions of one model in order: what each step changed in every arm, and what rose and what fell."""

import streamlit as st

from core.datasets.published import printed_sets
from core.stats.corrections import LABELS
from core.store.conditions import doctor_of
from core.store.database import Store
from core.store.selection import McqRule
from pages.parts.accuracy_data import known_case_sets
from pages.parts.accuracy_view import is_dark
from pages.parts.conditions import draw_conditions, draw_what_differs
from pages.parts.figure_controls import IMPORT_COMMAND, RELEASED, dataset_name, keep_valid
from pages.parts.figures import conditions, label_of, model_colours, model_name
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
)
from pages.parts.navigation import require_app

require_app()

_FIRST = ("mistral_v1_7b", "mistral_v2_7b")
_CHART = {"displaylogo": False, "toImageButtonOptions": {"format": "svg", "filename": "monitoring"}}
_RULES: dict[McqRule, str] = {"mcq_loose": "Paper’s substring rule", "mcq_strict": "Exactly one choice"}


def by_label(names: list[str]) -> dict[str, str]:
    """Return label → condition: what the address holds stays the same whoever ran the model."""
    held = {f"{label_of(name)}{name.removeprefix(doctor_of(name))}": name for name in names}
    published = [label for label in _FIRST if not any(label_of(name) == label for name in names)]
    return {**{label: label for label in published}, **held}


def draw_groups(versions: tuple[str, ...]) -> None:
    """Draw one arm by specialty."""
    found = version_steps(Store().version, case_set, versions, True, correction, rule)
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
        st.plotly_chart(groups_chart(shown, dark=is_dark()), config=_CHART, key=f"groups_{before}_{after}")
    st.caption(
        f"Dots with 95 % intervals over cases; green rose and orange fell at adjusted p ≤ 0.05 ({LABELS[correction]} "
        f"over all {len(found)} tests of arms and specialties)."
    )


st.title("Monitoring", anchor=False)
st.caption("Versions of one model in order, each compared with the one before it, paired by case.")
sets = known_case_sets()
keep_valid("monitoring_cases", sets)
usual = next((name for name in sets if len(held_models(name, "mcq_loose")) > 1), printed_sets()[0])
case_set = st.segmented_control(
    "Cases", list(sets), default=usual, required=True, format_func=dataset_name, key="monitoring_cases",
    bind="query-params", help="Figures on different cases are never mixed.",
) or usual  # fmt: skip
left, middle, right = st.columns([4, 2, 2])
with right:
    rule = st.selectbox("Rule for choices", list(_RULES), format_func=_RULES.__getitem__, key="monitoring_rule",
                        bind="query-params")  # fmt: skip
with middle:
    correction = st.selectbox("Correction", list(LABELS), format_func=LABELS.__getitem__, key="monitoring_correction",
                              bind="query-params")  # fmt: skip
known = by_label(held_models(case_set, rule))
keep_valid("monitoring_versions", known)
first = [next((label for label in known if label_of(known[label]) == one), None) for one in _FIRST]
with left:
    labels = st.multiselect("Versions, in order", list(known), default=[label for label in first if label],
                            format_func=model_name, key="monitoring_versions", bind="query-params")  # fmt: skip
versions = [known[label] for label in labels]
if len(versions) < 2:
    st.info("Choose at least two versions, the older one first.", icon=":material/timeline:")
    st.stop()
shown = bars(case_set, versions, rule)
colours = model_colours(versions)
figure = versions_chart(shown, {v: model_name(v) for v in versions}, colours, dark=is_dark())
st.plotly_chart(figure, config=_CHART, key="versions", alt="Accuracy of each version by format and question")
if any(bar.published for bar in shown):
    st.info(
        f"Hatched bars are the published figures of {RELEASED.title}. To test differences and read the conversations "
        f"behind them, import the authors' release: `{IMPORT_COMMAND}`, or run the models yourself.",
        icon=":material/menu_book:",
    )
    published = published_table(shown, versions)
    st.dataframe(published, hide_index=True)
    st.download_button("Download as CSV", published.to_csv(index=False), "monitoring-published.csv", "text/csv",
                       icon=":material/download:", key="monitoring_published")  # fmt: skip
steps = version_steps(Store().version, case_set, tuple(versions), False, correction, rule)
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
    courses = courses_table(versions, version_courses(Store().version, case_set, rule))
    if not courses.empty:
        st.subheader("How the conversations went", anchor=False)
        shares = {name: st.column_config.NumberColumn(format="percent") for name in courses.columns[3:]}
        st.dataframe(courses, hide_index=True, column_config=shares)
    named = {version: model_name(version) for version in versions}
    draw_what_differs(named, conditions(case_set), "these versions")
    draw_conditions(named, conditions(case_set))
    draw_groups(tuple(versions))
