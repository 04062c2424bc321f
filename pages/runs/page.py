"""Runs: the form for a campaign, the list, and one run with its progress, results, actions and conversations."""

import datetime
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from io import BytesIO
from typing import Any, Final

import orjson
import pandas as pd
import pyarrow.csv
import streamlit as st

from core.asking.persona import PLAIN, label, parse_persona
from core.events import QuestionType
from core.export.run_report import report_of
from core.frameworks.automedic.queries import FAILURE_NAMES, RULES, failures, trial_rows
from core.frameworks.base import frameworks, role_title, seats_at_work, tested_seat, title_of
from core.frameworks.casting import STORED_SEATS
from core.frameworks.settings import extra_of, options_of
from core.jobs.plan import HUMAN, names_of, remarks_of
from core.jobs.progress import ask_to_stop, run_state, status
from core.jobs.regrade import FREE
from core.jobs.run import go_on, last_words
from core.measures.accuracy import report as accuracy
from core.measures.base import Result, Row, Section
from core.spreadsheets import inert_table
from core.store.database import Store
from core.store.queries.answers import results
from core.store.queries.run_labels import delete_run, run_contents
from core.store.queries.runs import RoleUse, RunProgress
from core.store.queries.trials import Conversation, conversations, transcripts
from core.store.selection import Selection
from pages.kit.cached import ask, cached_query
from pages.kit.campaigns import (
    accuracy_chart,
    accuracy_rows,
    campaigns,
    case_set_name,
    choices_by,
    cost_in_words,
    draw_label,
    in_transcripts,
    label_of_run,
    run_title,
    unpriced,
)
from pages.kit.cases import excluded_in_words
from pages.kit.figures import draw_figure
from pages.kit.look import (
    END_SHORT,
    QUESTION_TYPE,
    RULE,
    STATE_ICON,
    VERDICT,
    arm_in_words,
    duration,
    in_callback,
    plain,
    store_error,
)
from pages.kit.names import dataset_name, model_name, unique_names
from pages.kit.navigation import follow, lead_to, link
from pages.kit.page import show
from pages.kit.section import table_of
from pages.kit.stored import CARED_FOR, history_conditions
from pages.kit.tables import draw_as_table, draw_table
from pages.kit.visitor import only
from pages.runs.form import ask_campaign, form_is_open

_BUSY_S, _IDLE_S = 2.0, 5.0
"""Seconds between two redraws of the runs, also when idle: another process may start a run at any time."""
_PAGE = 50
"""Conversations on one page of the list."""
_LISTED = 8
"""Rows visible without scrolling, of runs and of conversations."""
_FEW = 4
"""Frameworks with at most this number of arms show their accuracy as numbers instead of a chart."""
_ACCURACY = Section(
    "Accuracy",
    accuracy,
    axis="Accuracy",
    columns=(
        "format",
        "question_type",
        "mean",
        "ci_low",
        "ci_high",
        "n_cases",
        "n_trials",
        "n_excluded",
        "excluded_by_reason",
        "rule",
    ),
)
_LISTED_ARMS: Final = ["vignette:mcq", "vignette:frq", "multi_turn:mcq", "multi_turn:frq"]


def draw_runs() -> None:
    """Draw the form for a campaign, and the list with the chosen run, redrawn every few seconds."""
    runs_before = campaigns()
    busy = any(run_state(run) == "running" for run in runs_before)
    with st.expander("A new campaign", icon=":material/add:", expanded=not runs_before or form_is_open()):
        ask_campaign()

    @st.fragment(run_every=_BUSY_S if busy else _IDLE_S)
    def watch() -> None:
        follow()
        runs = campaigns()
        if not runs:
            st.info("No run yet. Start one above: the reference cast needs no key and takes under a minute.")
            return
        if busy != any(run_state(run) == "running" for run in runs):
            st.rerun()
        run_id = st.query_params.get("run")
        chosen = next((run for run in runs if run.run_id == run_id), runs[0])
        if run_id and chosen.run_id != run_id:
            st.info(
                "The run in this address is not stored here; the newest one is shown.", icon=":material/search_off:"
            )
        draw_run_list(runs, chosen)
        draw_run(chosen)

    watch()


def draw_run_list(runs: list[RunProgress], chosen: RunProgress) -> None:
    """Draw the list of runs; a click on a row stores that run in the URL."""
    names = unique_names(run.doctor for run in runs)
    table = pd.DataFrame(
        [
            {
                "State": run_state(run).capitalize(),
                "Name": label_of_run(run.run_id).name,
                "Done": run.done / run.planned if run.planned else None,
                "Framework": title_of(run.protocol),
                "Doctor": names[run.doctor],
                "Cases": case_set_name(run),
                "Trials": f"{run.done:,} of {format(run.planned, ',') if run.planned else '?'}",
                "Excluded": run.excluded,
                "Cost": cost_in_words(run),
                "Started": datetime.datetime.fromtimestamp(run.created_at, tz=datetime.UTC),
                "Run": run.run_id,
            }
            for run in runs
        ]
    )
    draw_table(
        table,
        "runs_list",
        {
            "Done": st.column_config.ProgressColumn(min_value=0, max_value=1, format="percent", width="small"),
            "Started": st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm", help="Time in UTC."),
            "State": st.column_config.TextColumn(width="small"),
            "Excluded": st.column_config.NumberColumn(help="Answers that do not count; the reasons are below."),
        },
        on_row=lambda row: st.query_params.update(run=runs[row].run_id),
        marked=runs.index(chosen),
        ids=[run.run_id for run in runs],
        height="content" if len(runs) <= _LISTED else 35 * _LISTED,
        download="",
    )


def draw_run(run: RunProgress) -> None:
    """Draw one run: its progress, actions, cast, settings, accuracy and conversations."""
    state = run_state(run)
    progress = status(run.run_id) if state == "running" else None
    st.header(f"{STATE_ICON[state]} {plain(run_title(run))}", anchor=False)
    words = [f"{state.capitalize()}: {run.done:,} of {run.planned:,} trials"]
    if progress:
        if progress.get("batch"):
            words[0] = words[0].replace("Running", "Waiting")
        words += map(plain, filter(None, (time_in_words(progress), progress["words"])))
    st.progress(run.done / run.planned if run.planned else 0.0, text="; ".join(words))
    if progress and progress.get("forecast"):
        st.caption(f":material/query_stats: {plain(progress['forecast'])}")
    if progress and progress.get("trouble"):
        st.warning(plain(progress["trouble"]), icon=":material/gavel:")
    _draw_buttons(run, state)
    label_ = label_of_run(run.run_id)
    if label_.tags:
        st.markdown(" ".join(f":gray-badge[{plain(tag)}]" for tag in label_.tags))
    if label_.note:
        st.caption(f":material/sticky_note_2: {plain(label_.note)}")
    use_lines = [f"{role}: {_tokens(use)}" for role, use in run.use.items()]
    if sources := dict.fromkeys(use.price_source for use in run.use.values() if use.price_source):
        use_lines.append(f"prices: {plain('; '.join(sources))}")
    columns = st.columns(4)
    for column, facts in zip(columns, (_cast(run), _settings(run)), strict=False):
        column.markdown("  \n".join(f"**{name}** {words}" for name, words in facts))
    columns[2].markdown(f"**Answers** {run.answers:,}, {run.excluded} excluded  \n**Trials broken off** {run.failed}")
    columns[3].markdown("  \n".join(use_lines) or ("No call is stored." if unpriced(run) else "No model was called."))
    _draw_accuracy(run)
    if run.answers:
        draw_ways_on(run)
    _draw_conversations(run)


def _tokens(use: RoleUse) -> str:
    """Return the tokens of a role in words, with cached and reasoning tokens."""
    parts = {
        "cached": use.cached_tokens,
        "written to the cache": use.cache_write_tokens,
        "reasoning": use.reasoning_tokens,
    }
    details = ", ".join(f"{tokens:,} {what}" for what, tokens in parts.items() if tokens)
    return f"{use.prompt_tokens + use.completion_tokens:,} tokens" + (f" ({details})" if details else "")


def _draw_buttons(run: RunProgress, state: str) -> None:
    # Callbacks, because a redraw between a click and its button would lose the click.
    stopping_key, error_key = f"stopping_{run.run_id}", f"refused_{run.run_id}"

    def stop() -> None:
        ask_to_stop(run.run_id)
        st.session_state[stopping_key] = True

    def resume() -> None:
        with store_error(error_key):
            go_on(run.run_id)

    with st.container(horizontal=True, vertical_alignment="center"):
        if state == "running":
            is_stopping = bool(st.session_state.get(stopping_key))
            st.button(
                "Stopping…" if is_stopping else "Stop",
                icon=":material/stop:",
                key=f"stop_{run.run_id}",
                on_click=in_callback(stop),
                **only("run", disabled=is_stopping, help="Finished trials are kept."),
            )
        elif state == "stopped" and run.doctor.startswith(f"{HUMAN}/"):
            st.caption("People answer this run on the page Judges, under Experts.")
        elif state == "stopped" and run.source == "local":
            st.session_state.pop(stopping_key, None)
            st.button(
                "Resume",
                icon=":material/play_arrow:",
                type="primary",
                key=f"resume_{run.run_id}",
                on_click=resume,
                **only("run"),
            )
            if error := st.session_state.get(error_key) or last_words(run.run_id):
                st.caption(plain(error))
        draw_label(run.run_id, f"{run.doctor} on {run.case_set}")
        if state != "running" and run.source != "release":
            draw_delete(run)
        st.caption(f"`{run.run_id}`")


def time_in_words(progress: dict[str, Any]) -> str:
    """Return how long a run has taken and will still take; empty if the start is unknown."""
    if "started_at" not in progress:
        return ""
    elapsed = time.time() - progress["started_at"]
    seconds_left = (
        elapsed / progress["done_here"] * (progress["planned"] - progress["done"]) if progress["done_here"] else None
    )
    return f"{duration(elapsed)} so far" + (f", about {duration(seconds_left)} left" if seconds_left else "")


def draw_delete(run: RunProgress) -> None:
    """Draw the button that deletes a run, with what is deleted and what stays."""
    error_key = f"delete_refused_{run.run_id}"

    def delete() -> None:
        with store_error(error_key):
            delete_run(Store(), run.run_id)
            st.query_params.pop("run", None)

    with st.popover("Delete", icon=":material/delete:", key=f"delete_{run.run_id}"):
        contents = ask(run_contents, run.run_id)
        deleted_counts = {
            "trials": contents.trials,
            "answers": contents.answers,
            "verdicts": contents.verdicts,
            "scores": contents.scores,
        }
        deleted_counts |= {"experts’ annotations": contents.annotations}
        st.markdown(
            f"Deleted with it: {', '.join(f'{n:,} {what}' for what, n in deleted_counts.items() if n) or 'nothing'}. "
            f"The cost of its {contents.calls:,} calls stays counted."
        )
        if contents.branches:
            st.markdown(
                f"{contents.branches:,} branches of other runs stay, without the conversations they were forked from."
            )
        st.button("Delete for good", type="primary", key=f"delete_yes_{run.run_id}", on_click=delete, **only("edit"))
        if error := st.session_state.get(error_key):
            st.warning(plain(error), icon=":material/error:")


def draw_ways_on(run: RunProgress) -> None:
    """Draw links to pages that show and compare the run's answers or grade them again, and the export menu."""
    run_id = run.run_id
    with st.container(horizontal=True, vertical_alignment="center"):
        link("accuracy", "Compare with other models", "bar_chart")
        link("transcripts", "Its conversations", "forum", **in_transcripts([run_id]))
        link("failures", "Why answers are wrong", "troubleshoot")
        link("compare", "Compare with another run", "compare_arrows")
        if any(question_type in FREE for _, question_type in run.arms):
            link(
                "graders",
                "Grade again",
                "rule",
                graders_tab="Grade again",
                graders_again_runs=f"{model_name(run.doctor)} · {run_id}",
            )
        with st.popover("Export", icon=":material/download:", key=f"export_{run_id}"):
            files: tuple[tuple[str, str, str, Callable[[], bytes | str]], ...] = (
                ("Report (Markdown)", "report.md", "text/markdown", lambda: report_of(Store(), run_id)),
                ("Answers and verdicts (CSV)", "answers.csv", "text/csv", lambda: _answers_csv(run_id)),
                ("Conversations (JSON Lines)", "conversations.jsonl", "application/jsonl", lambda: _talk_lines(run_id)),
            )
            for label, name, mime, make in files:
                st.download_button(
                    label, make, f"{run_id}-{name}", mime, key=f"export_{name}_{run_id}", on_click="ignore"
                )


def _answers_csv(run_id: str) -> bytes:
    output = BytesIO()
    with Store().read() as cursor:
        pyarrow.csv.write_csv(inert_table(results(cursor, Selection(runs=[run_id]))), output)
    return output.getvalue()


def _talk_lines(run_id: str) -> bytes:
    with Store().read() as cursor:
        return b"".join(orjson.dumps(line) + b"\n" for line in transcripts(cursor, run_id))


def _cast(run: RunProgress) -> Iterator[tuple[str, str]]:
    fw = frameworks().get(run.protocol)
    if fw is None:
        yield "Patient", plain(model_name(run.patient))
    else:
        names = names_of(fw, {role: getattr(run, role) for role in STORED_SEATS}, run.settings)
        tested = names[tested_seat(fw).role]
        if not fw.talks(tested, run.arms):
            yield "Conversation", "none"
        for role in seats_at_work(fw, tested, run.arms):
            yield role_title(fw, role), plain(model_name(names[role]))
    persona = parse_persona(str(run.settings.get("persona", "")))
    if persona != PLAIN:
        yield "Persona", plain(label(persona))
    if run.settings.get("images"):
        yield "Pictures", "shown to the doctor"
    if fw is not None and (remarks := remarks_of(run)):
        yield "Note that", plain(" and that ".join(remarks))


def _settings(run: RunProgress) -> Iterator[tuple[str, str]]:
    yield "Framework", plain(title_of(run.protocol))
    yield "Prompts", f"{plain(run.prompt_pack)} `{run.prompt_hash[:8]}`"
    if fw := frameworks().get(run.protocol):
        for name, info in options_of(fw.settings).items():
            head, value = extra_of(info, "label"), run.settings.get(name)
            if value not in (None, "", 0) and head and not head.startswith("Cap"):
                yield head, "yes" if value is True else plain(fw.speech.in_words(name, value))
        if cap := fw.speech.cap(run.settings, run.doctor):
            yield "Cap", cap
    yield "Seed", str(run.seed)


def _draw_accuracy(run: RunProgress) -> None:
    """Draw the accuracy of a run and the excluded answers by reason."""
    if not (rows := accuracy_rows(run.run_id)):
        return
    fw = frameworks().get(run.protocol)
    if fw is not None and len(fw.arms) <= _FEW:
        _draw_few(run, rows)
    else:
        cases = max(row.n or 0 for row in rows)
        draw_figure(
            lambda dark: accuracy_chart(rows, dark=dark),
            f"accuracy_{run.run_id}",
            "Accuracy by format",
            f"{model_name(run.doctor)} on {case_set_name(run)}, n = {cases:,} cases, 95 % "
            f"intervals{choices_by(rows)}; run {run.run_id}.",
        )
    if reasons := sum((Counter(row.excluded) for row in rows), Counter[str]()):
        st.caption(f":material/block: Not counted in any figure: {excluded_in_words(reasons)}.")
    draw_as_table(table_of(Result("", tuple(rows)), {}, _ACCURACY), f"accuracy-{run.run_id}")


def _draw_few(run: RunProgress, rows: list[Row]) -> None:
    """Draw accuracy as numbers, for a framework with few arms, and the link to the framework's measures."""
    on_paper = any(format_ == "vignette" for format_, _ in run.arms)
    cases = dataset_name(run.data_set)
    with st.container(horizontal=True, vertical_alignment="center", border=True, gap="medium"):
        for row in rows:
            question: QuestionType = row.label["question_type"]
            setting = (
                " on paper" if row.label["format"] == "vignette" else " after the conversation" if on_paper else ""
            )
            judged_by = (
                RULE.get(row.label["rule"], "Judged by the grader") if question == "mcq" else "Judged by the grader"
            )
            basis_words = f"{row.n} cases, {row['n_trials']} trials, {row['n_excluded']} excluded"
            if row.low is not None and row.high is not None:
                basis_words = f"95 % interval {row.low:.3f}–{row.high:.3f}  \n{basis_words}"
            with st.container(width="content", gap="xxsmall"):
                st.metric(
                    f"Accuracy{setting}, {QUESTION_TYPE[question].lower()}",
                    "–" if row.estimate is None else f"{row.estimate:.3f}",
                    help=f"{judged_by}: the mean over a case’s trials, then over cases.",
                )
                st.caption(basis_words)
        if run.protocol in CARED_FOR:
            link("care", "Its figures under CARE", "volunteer_activism", datasets=cases)
        else:
            runs_by_condition = {condition.name: condition.runs for condition in history_conditions()}
            name = next(
                (name for key, name in unique_names(runs_by_condition).items() if run.run_id in runs_by_condition[key]),
                None,
            )
            doctor = {} if name is None else {"models": name}
            link("history", "How well the history was taken", "contact_support", cases=cases, **doctor)


@cached_query(entries=32)
def run_conversations(run_id: str, page: int) -> list[Conversation]:
    """Return one page (from 0) of a run's conversations."""
    with Store().read() as cursor:
        return conversations(cursor, Selection(runs=[run_id]), limit=_PAGE, offset=page * _PAGE)


@cached_query(entries=32)
def tagged_failures(run_id: str) -> dict[str, str]:
    """Return trial → its failures by CARE's rules in words, for the trials of a run that have any."""
    kinds_by_trial: dict[str, list[str]] = {}
    with Store().read() as cursor:
        for question_type in RULES:
            trials = trial_rows(cursor, Selection(runs=[run_id]), question_type)
            for failure in failures(cursor, trials):
                kinds_by_trial.setdefault(failure.trial_id, []).append(FAILURE_NAMES[failure.kind])
    return {trial_id: ", ".join(dict.fromkeys(kinds)) for trial_id, kinds in kinds_by_trial.items()}


def _draw_conversations(run: RunProgress) -> None:
    st.header("Conversations", anchor=False)
    page = st.pagination(max(1, -(-run.done // _PAGE)), key=f"page_{run.run_id}") if run.done > _PAGE else 1
    talks = run_conversations(run.run_id, (page or 1) - 1)
    if not talks:
        st.caption("No conversation has finished yet.")
        return
    draw_table(
        conversations_table(talks, run.protocol, tagged_failures(run.run_id) if run.protocol in CARED_FOR else None),
        f"talks_{run.run_id}",
        on_row=lambda row: lead_to("transcripts", trial=talks[row].trial_id, **in_transcripts([run.run_id])),
        height="content" if len(talks) <= _LISTED else 35 * _LISTED,
        download="",
    )
    st.caption("Choose a row to read its conversation, and from there to watch it again or to debug it.")


def conversations_table(
    talks: list[Conversation], protocol: str = "", failed: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Return a row for each conversation; ``failed`` maps trials to failures in words, for frameworks under CARE."""
    arms = sorted({name for talk in talks for name in talk.verdicts if name in _LISTED_ARMS}, key=_LISTED_ARMS.index)
    return pd.DataFrame(
        [
            {
                "Case": talk.case_key.partition("/")[2],
                **({} if failed is not None else {"Specialty": talk.specialty}),  # the failures need its space
                "Trial": talk.trial + 1,
                "Right answer": talk.answer,
                **{
                    arm_in_words(name): VERDICT[verdict][0] if (verdict := talk.verdicts.get(name)) in VERDICT else "–"
                    for name in arms
                },
                "Doctor's turns": talk.doctor_turns,
                "Ended by": _ended_by(talk, protocol),
                **({} if failed is None else {"Failure": failed.get(talk.trial_id, "")}),
            }
            for talk in talks
        ]
    )


def _ended_by(talk: Conversation, protocol: str) -> str:
    if talk.end_reason is None:
        return "No conversation"
    fw = frameworks().get(protocol)
    if fw is None or talk.end_reason != "turn_cap":
        return END_SHORT[talk.end_reason]
    labels = (extra_of(info, "label") for info in options_of(fw.settings).values())
    return next((label for label in labels if label.startswith("Cap")), END_SHORT["turn_cap"])


if __name__ == "__main__":
    show("Runs", draw_runs)
