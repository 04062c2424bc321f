"""What the Monitoring page asks core for."""

import pandas as pd
import streamlit as st

from core.measures.accuracy import accuracy_of, chosen
from core.measures.compare import Step, published_versions, recorrected, steps
from core.stats.corrections import LABELS, Correction, format_p, stars
from core.store.database import Store
from core.store.queries.accuracy import Course, courses
from core.store.selection import McqRule, Selection
from pages.parts.figures import label_of, model_name, scores
from pages.parts.look import END_SHORT, FORMAT, QUESTION_TYPE, arm
from pages.parts.monitoring_charts import Bar

_WORDS = {"rose": "▲ rose", "fell": "▼ fell", "unclear": "no clear change"}


def held_models(case_set: str, mcq_rule: McqRule) -> list[str]:
    """Return the conditions of which the database holds answers on a case set, by doctor, the newest first."""
    return list(dict.fromkeys(score.model for score in scores(mcq_rule, case_set)))


def bars(case_set: str, versions: list[str], mcq_rule: McqRule) -> list[Bar]:
    """Return accuracy by version and arm: ours where the database holds it, else the published figure."""
    own = [
        Bar(r.model, r.format, r.question_type, r.mean, r.ci_low, r.ci_high, published=False)
        for r in _accuracy(_version(), case_set, tuple(versions), mcq_rule)
        if r.mean is not None
    ]
    lacking = [version for version in versions if not any(bar.version == version for bar in own)]
    by_label = {label_of(version): version for version in lacking}
    return own + [
        Bar(by_label[f.model], f.format, f.question_type, f.mean, f.ci_low, f.ci_high, published=True)
        for f in published_versions(case_set, lacking, label_of)
    ]


@st.cache_data(max_entries=32, show_spinner=False)
def _accuracy(version: str, case_set: str, versions: tuple[str, ...], mcq_rule: McqRule) -> list:  # type: ignore[type-arg]
    return accuracy_of(chosen(scores(mcq_rule, case_set), models=versions))


def version_steps(
    version: str, case_set: str, versions: tuple[str, ...], by_specialty: bool, correction: Correction,
    mcq_rule: McqRule,
) -> list[Step]:  # fmt: skip
    """Return the steps between the versions; another correction does not compare anew."""
    return recorrected(_compared(version, case_set, versions, by_specialty, mcq_rule), correction)


@st.cache_data(max_entries=32, show_spinner="Comparing versions…")
def _compared(
    version: str, case_set: str, versions: tuple[str, ...], by_specialty: bool, mcq_rule: McqRule
) -> list[Step]:
    found = chosen(scores(mcq_rule, case_set), models=versions)
    return steps(found, list(versions), "specialty" if by_specialty else None, "none")


@st.cache_data(max_entries=4, show_spinner=False)
def version_courses(version: str, case_set: str, mcq_rule: McqRule) -> dict[str, Course]:
    """Return how the conversations of each condition on a case set went."""
    with Store().read() as cursor:
        return courses(cursor, Selection(case_sets=(case_set,), mcq_rule=mcq_rule))


def _version() -> str:
    return Store().version


def steps_table(found: list[Step], correction: Correction) -> pd.DataFrame:
    """Return steps with plain heads."""
    several = len({(step.before, step.after) for step in found}) > 1
    return pd.DataFrame(
        [
            {
                **({"Step": f"{model_name(step.before)} → {model_name(step.after)}"} if several else {}),
                "Format": FORMAT[step.format],
                "Question": QUESTION_TYPE[step.question_type],
                "Before": round(step.result.first_mean, 3),
                "After": round(step.result.second_mean, 3),
                "Difference": round(step.result.difference, 3),
                "95 % interval": f"{step.result.ci_low:+.3f} to {step.result.ci_high:+.3f}",
                f"p ({LABELS[correction]})": f"{format_p(step.adjusted_p)} {stars(step.adjusted_p)}",
                "Change": _WORDS[step.verdict],
                "Cases": step.result.n,
                "Cases improved": step.result.improved,
                "Cases regressed": step.result.regressed,
                "Cases equal": step.result.equal,
                "Invalid before": step.invalid_before,
                "Invalid after": step.invalid_after,
            }
            for step in found
        ]
    )


def apart_from_bars(found: list[Step], shown: list[Bar], least: float = 0.0005) -> list[str]:
    """Return in a sentence each where a mean of a step is not that of its bar: a step has the cases of both versions.

    A case without an answer that counts is left out of its version's bar, and of both sides of a step. The first of
    several steps of a version in an arm speaks for it.
    """
    means = {(bar.version, bar.format, bar.question_type): bar.mean for bar in shown if not bar.published}
    words: dict[tuple[str, str, str], str] = {}
    for step in found:
        r, at = step.result, (step.format, step.question_type)
        sides = ((step.before, r.first_mean, r.first_alone), (step.after, r.second_mean, r.second_alone))
        for version, mean, alone in sides:
            whole = means.get((version, *at))
            if whole is not None and abs(whole - mean) >= least:
                on_all = f"{model_name(version)}, {arm(*at)}: {whole:.3f} on its {r.n + alone:,} cases"
                both = f"{mean:.3f} on the {r.n:,} that both versions answered"
                words.setdefault((version, *at), f"{on_all}, {both}.")
    return list(words.values())


def published_table(shown: list[Bar], versions: list[str]) -> pd.DataFrame:
    """Return published accuracies side by side, with the difference between the first and the last version."""
    arms = list(dict.fromkeys((bar.format, bar.question_type) for bar in shown))
    means = {(bar.version, bar.format, bar.question_type): bar.mean for bar in shown}
    rows = []
    for format_, question_type in arms:
        values = [means.get((version, format_, question_type)) for version in versions]
        first, last = values[0], values[-1]
        rows.append(
            {
                "Format": FORMAT[format_],
                "Question": QUESTION_TYPE[question_type],
                **{model_name(v): value for v, value in zip(versions, values, strict=True)},
                "Difference": None if first is None or last is None else round(last - first, 3),
            }
        )
    return pd.DataFrame(rows)


def courses_table(versions: list[str], held: dict[str, Course]) -> pd.DataFrame:
    """Return how conversations went, a row a version, with the share of each ending."""
    reasons = [r for r in END_SHORT if any(r in held[v].endings for v in versions if v in held)]
    return pd.DataFrame(
        [
            {
                "Version": model_name(version),
                "Conversations": held[version].conversations,
                "Doctor's turns (mean)": round(held[version].mean_turns or 0.0, 2),
                **{END_SHORT[r]: held[version].endings.get(r, 0) / held[version].conversations for r in reasons},
            }
            for version in versions
            if version in held
        ]
    )
