"""One run: progress, cast and settings, accuracy, links to its results, and its conversations."""

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import orjson
import pyarrow.csv
import streamlit as st

from core.asking.persona import PLAIN, parse_persona
from core.asking.persona import label as persona_words
from core.export.run_summary import summary_of
from core.export.withheld import PublicTexts, public_results, public_transcripts
from core.frameworks.base import frameworks, role_title, seats_at_work, tested_seat, title_of
from core.frameworks.casting import STORED_SEATS
from core.frameworks.settings import extra_of, options_of
from core.interchange.archive import MAX_TRIALS, zipped
from core.interchange.every_eval_ever import Publisher, write_evaluations
from core.interchange.inspect_log import write_log
from core.jobs.plan import HUMAN, names_of, remarks_of
from core.jobs.progress import ask_to_stop, last_status, run_state, status
from core.jobs.regrade import FREE
from core.jobs.run import go_on, last_words
from core.measures.flow import FLOW
from core.measures.registry import qualities
from core.spreadsheets import inert_table
from core.store.database import Store
from core.store.queries.run_labels import delete_run, run_contents
from core.store.queries.runs import RoleUse, RunProgress
from core.store.selection import Selection
from core.words import ROLE
from pages.kit.cached import ask
from pages.kit.campaigns import draw_accuracy, draw_label, in_conversations, label_of_run, run_title, unpriced
from pages.kit.export_menu import draw_with_cases, with_cases_key
from pages.kit.look import STATE_ICON, counted, draw_style, duration, in_callback, plain
from pages.kit.names import dataset_name, model_name
from pages.kit.navigation import link
from pages.kit.page import draw_fold
from pages.kit.section import draw_section
from pages.kit.subjects import draw_comparison_link, in_results
from pages.kit.visitor import draw_button, offer_file, only

_MOST_IN_A_LOG: Final = 3_000
"""The most conversations of a run whose Inspect log can be downloaded: it is made in memory."""


def draw_run(run: RunProgress) -> None:
    st.header(f"{STATE_ICON[run_state(run)]} {plain(run_title(run))}", anchor=False)
    draw_run_progress(run)
    label = label_of_run(run.run_id)
    if label.tags:
        st.markdown(" ".join(f":gray-badge[{plain(tag)}]" for tag in label.tags))
    if label.note:
        st.caption(f":material/sticky_note_2: {plain(label.note)}")
    if run.hypothesis:
        st.caption(f":material/lightbulb: Stated before the first call: {plain(str(run.hypothesis))}")
    draw_accuracy(run)
    if run.done:
        draw_run_links(run)
    use_lines = [f"**{ROLE[role]}** {_tokens(use)}" for role, use in run.use.items()]
    if sources := dict.fromkeys(use.price_source for use in run.use.values() if use.price_source):
        use_lines.append(f"**Prices** {plain('; '.join(sources))}")
    columns = st.columns(4)
    for column, facts in zip(columns, (_cast(run), _settings(run)), strict=False):
        column.markdown("  \n".join(f"**{name}** {words}" for name, words in facts))
    columns[2].markdown(f"**Answers** {run.answers:,}, {run.excluded} excluded  \n**Failed trials** {run.failed}")
    columns[3].markdown("  \n".join(use_lines) or ("No call is stored." if unpriced(run) else "No model was called."))
    if run.done:
        flow = partial(draw_section, FLOW, Selection(runs=[run.run_id]), name=f"flow_table_{run.run_id}", titled=False)
        draw_fold("Flow: from the cases to the answers that count", flow, f"flow_{run.run_id}", "account_tree")


def _tokens(use: RoleUse) -> str:
    """Return the tokens of a role in words, with cached and reasoning tokens."""
    parts = {
        "cached": use.cached_tokens,
        "written to the cache": use.cache_write_tokens,
        "reasoning": use.reasoning_tokens,
    }
    details = ", ".join(f"{tokens:,} {what}" for what, tokens in parts.items() if tokens)
    return f"{use.prompt_tokens + use.completion_tokens:,} tokens" + (f" ({details})" if details else "")


def draw_run_links(run: RunProgress) -> None:
    """Draw links to the results of a run, each with the run preselected, and the menus to grade and export it."""
    run_id = run.run_id
    with st.container(horizontal=True, vertical_alignment="center"):
        link("accuracy", "Accuracy", "bar_chart", **in_results(run_id))
        own = [quality for quality in qualities() if quality.frameworks and run.protocol in quality.frameworks()]
        for quality in own or [quality for quality in qualities() if not quality.frameworks]:
            cases = dataset_name(run.data_set)
            link(quality.key, quality.title, "monitoring", datasets=cases, **in_results(run_id))
        link("failures", "Wrong answers", "troubleshoot", **in_results(run_id))
        link("conversations", "Conversations", "forum", **in_conversations([run_id]))
        link("report", "Report", "fact_check", help="Of this run, or with others that you add.", runs=run_id)
        is_comparable = draw_comparison_link(run_id)
        if any(question_type in FREE for _, question_type in run.arms):
            link(
                "graders",
                "Grade again",
                "rule",
                section="Grade again",
                graders_again_runs=f"{model_name(run.doctor)} · {run_id}",
            )
        with_cases = bool(st.session_state.get(with_cases_key(run_id)))
        files: dict[str, tuple[str, str, Callable[[], bytes | str]]] = {
            "Summary (Markdown)": ("summary.md", "text/markdown", lambda: summary_of(Store(), run_id)),
            "Answers and verdicts (CSV)": ("answers.csv", "text/csv", lambda: _answers_csv(run_id, with_cases)),
            "Conversations (JSON Lines)": (
                "conversations.jsonl",
                "application/jsonl",
                lambda: _conversation_lines(run_id, with_cases),
            ),
        }
        if run.done <= _MOST_IN_A_LOG:  # larger runs: `export inspect`
            files["Inspect log (JSON)"] = ("inspect.json", "application/json", lambda: _inspect_log(run_id, with_cases))
        with st.popover("Export", icon=":material/download:", key=f"export_{run_id}"):
            draw_with_cases(run_id)
            for label, (name, mime, make) in files.items():
                offer_file(label, make, f"{run_id}-{name}", mime, f"export_{name}_{run_id}")
            _draw_exchange(run, with_cases=with_cases)
    if not is_comparable:
        st.caption("No comparable run: none has the same framework, cases, other players, prompts and grader.")


def _inspect_log(run_id: str, with_cases: bool) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "log.json"
        write_log(Store(), run_id, path, with_cases=with_cases)
        return path.read_bytes()


def _draw_exchange(run: RunProgress, *, with_cases: bool) -> None:
    """Draw the download in the format Every Eval Ever, which names a publisher; large runs are exported by command."""
    if run.done > MAX_TRIALS:
        st.caption(plain(f"For Every Eval Ever: `python -m core export eee {run.run_id} --out …`."))
        return
    organization = st.text_input("Publishing organization", key=f"publisher_{run.run_id}")
    selection, publisher = Selection(runs=[run.run_id]), Publisher(organization, "other")
    offer_file(
        "Every Eval Ever (ZIP)",
        partial(
            zipped,
            run.run_id,
            lambda folder: write_evaluations(Store(), selection, folder, publisher, with_cases=with_cases),
        ),
        f"{run.run_id}-every-eval-ever.zip",
        "application/zip",
        f"exchange_{run.run_id}",
        "" if organization.strip() else "Name the publishing organization first.",
    )


def _answers_csv(run_id: str, with_cases: bool) -> bytes:
    output = BytesIO()
    with Store().read() as cursor:
        texts = PublicTexts(cursor, with_cases=with_cases)
        pyarrow.csv.write_csv(inert_table(public_results(cursor, Selection(runs=[run_id]), texts)), output)
    return output.getvalue()


def _conversation_lines(run_id: str, with_cases: bool) -> bytes:
    with Store().read() as cursor:
        texts = PublicTexts(cursor, with_cases=with_cases)
        return b"".join(orjson.dumps(line) + b"\n" for line in public_transcripts(cursor, run_id, texts))


def _cast(run: RunProgress) -> Iterator[tuple[str, str]]:
    fw = frameworks().get(run.protocol)
    if fw is None:
        yield "Patient", plain(model_name(run.patient))
    else:
        names = names_of(fw, {role: getattr(run, role) for role in STORED_SEATS}, run.settings)
        tested = names[tested_seat(fw).role]
        if not fw.has_conversation(tested, run.arms):
            yield "Conversation", "none"
        for role in seats_at_work(fw, tested, run.arms):
            yield role_title(fw, role), plain(model_name(names[role]))
    persona = parse_persona(str(run.settings.get("persona", "")))
    if persona != PLAIN:
        yield "Persona", plain(persona_words(persona))
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
            if value not in (None, "", 0) and head and not head.startswith("Limit"):
                yield head, "yes" if value is True else plain(fw.speech.in_words(name, value))
        if cap := fw.speech.cap(run.settings, run.doctor):
            yield "Limit", cap
    yield "Seed", str(run.seed)


_IN_SIGHT = """<style>
[data-testid="stLayoutWrapper"]:has(> .st-key-run_progress) { position: sticky; top: 3.6rem; z-index: 90; }
.st-key-run_progress { background: GROUND; padding-bottom: 0.5rem; border-bottom: 1px solid BORDER; }
</style>"""


def share_of(run: RunProgress) -> float | None:
    """Return the share of a run that is done, 0 to 1, in calls as long as it is not complete; ``None`` if unknown."""
    if run.state != "complete" and (progress := last_status(run.run_id)) and "share" in progress:
        return float(progress["share"])
    return run.done / run.planned if run.planned else None


def draw_run_progress(run: RunProgress) -> None:
    """Draw how far a run is and its buttons; those of a running run stay in sight when the page is scrolled."""
    state = run_state(run)
    progress = status(run.run_id) if state == "running" else None
    if state == "running":
        draw_style(_IN_SIGHT)
    with st.container(key="run_progress", gap="small"):
        if state != "complete":
            st.progress(share_of(run) or 0.0, text=progress_in_words(run, state, progress))
        _draw_buttons(run, state)
    if progress and progress["details"]:
        st.caption(plain(progress["details"]))
    if progress and progress["forecast"]:
        st.caption(f":material/query_stats: {plain(progress['forecast'])}")
    if progress and progress["trouble"]:
        st.warning(plain(progress["trouble"]), icon=":material/gavel:")


def progress_in_words(run: RunProgress, state: str, progress: Mapping[str, Any] | None) -> str:
    """Return how far a run is: its calls and the time left while it runs, what is stored once it has stopped."""
    trials = f"{run.done:,} of {format(run.planned, ',') if run.planned else '?'} trials"
    if state == "stopped" and (replies := sum(use.calls - use.failed for use in run.use.values())):
        stored = counted(replies, "reply", "replies")
        return f"Stopped: {stored} and {trials} are stored; resuming pays for none of them again"
    if progress is None:
        return f"{state.capitalize()}: {trials}"
    words = [f"{'Waiting' if progress['batch'] else 'Running'}: {trials}"]
    if progress["calls_expected"]:
        words[0] += f", {progress['calls_so_far']:,} of about {progress['calls_expected']:,} calls"
    time_left = f", about {duration(progress['seconds_left'])} left" if progress["seconds_left"] else ""
    words.append(f"{duration(time.time() - progress['started_at'])} so far{time_left}")
    return "; ".join(words)


def _draw_buttons(run: RunProgress, state: str) -> None:
    # Callbacks, because a redraw between a click and its button would lose the click.
    stopping_key = f"stopping_{run.run_id}"

    def stop() -> None:
        ask_to_stop(run.run_id)
        st.session_state[stopping_key] = True

    with st.container(horizontal=True, vertical_alignment="center"):
        if state == "running":
            is_stopping = bool(st.session_state.get(stopping_key))
            draw_button(
                "Stop",
                "It stops when the running calls have ended." if is_stopping else "",
                role="run",
                icon=":material/stop:",
                key=f"stop_{run.run_id}",
                on_click=in_callback(stop),
                help="Every reply is stored; the run can be resumed.",
            )
        elif state == "stopped" and run.doctor.startswith(f"{HUMAN}/"):
            st.caption("People answer this run on the page Trust, under Experts.")
        elif state == "stopped" and run.source == "local":
            st.session_state.pop(stopping_key, None)
            st.button(
                "Resume",
                icon=":material/play_arrow:",
                type="primary",
                key=f"resume_{run.run_id}",
                on_click=in_callback(go_on),
                args=(run.run_id,),
                **only("run"),
            )
            if error := last_words(run.run_id):
                st.caption(plain(error))
        if state == "complete":
            st.markdown(progress_in_words(run, state, None), width="content")
        draw_label(run.run_id, f"{run.doctor} on {run.case_set}")
        if state != "running" and run.source != "release":
            draw_delete(run)
        st.caption(f"`{run.run_id}`")


def draw_delete(run: RunProgress) -> None:
    """Draw the button that deletes a run, with what is deleted and what stays."""

    @in_callback
    def delete() -> None:
        delete_run(Store(), run.run_id)
        st.query_params.pop("run", None)

    with st.popover("Delete", icon=":material/delete:", key=f"delete_{run.run_id}"):
        contents = ask(run_contents, run.run_id)
        deleted_counts = {
            "trials": contents.trials,
            "answers": contents.answers,
            "verdicts": contents.verdicts,
            "scores": contents.scores,
            "experts’ annotations": contents.annotations,
        }
        st.markdown(
            f"Deleted with it: {', '.join(f'{n:,} {what}' for what, n in deleted_counts.items() if n) or 'nothing'}. "
            f"The cost of its {contents.calls:,} calls stays counted."
        )
        if contents.branches:
            st.markdown(
                f"{contents.branches:,} branches of other runs stay, without the conversations they branch off."
            )
        st.button("Delete for good", type="primary", key=f"delete_yes_{run.run_id}", on_click=delete, **only("run"))
