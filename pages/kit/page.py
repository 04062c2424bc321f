"""The frame of a page: running jobs, title, contents and tabs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.jobs.background import MEASURING, keep_measured, running_jobs
from core.jobs.progress import under_way as running_campaigns
from core.store.database import Store
from core.store.fold import fold_if_free
from core.store.queries.runs import runs
from pages.kit.cached import ask
from pages.kit.campaigns import run_title
from pages.kit.controls import choose_by_name
from pages.kit.figures import is_dark
from pages.kit.look import REFUSED, draw_refused, duration, plain, show_errors
from pages.kit.navigation import follow, lead_on, link, require_app
from pages.kit.notes import forget_notes
from pages.kit.seats import case_label
from pages.kit.sessions import DEMONSTRATION, running_sessions

_LOOKS_EVERY_S = 2.0
_SOON_MEASURED = 50
"""At most this many trials are measured without saying so: the line would move the page for a second."""
_SECTION = "section"
"""URL parameter with the title of the section of ``draw_shown``."""
# Streamlit draws captions at 60 % opacity (4.06:1), and white on the primary colour of the dark theme (3.9:1).
_CAPTIONS = 'body [data-testid="stCaptionContainer"] { opacity: 0.8; }'
# Streamlit draws a table's toolbar over the end of what is above the table; it gets a strip of its own.
_TOOLBARS = (
    '[data-testid="stElementContainer"]:has([data-testid="stDataFrame"]) { margin-top: 1rem; } '
    '[data-testid="stDataFrame"] [data-testid="stElementToolbar"] { top: -1.9rem; }'
)
# The figure begins high: the title of a figure lies in the strip of Plotly's toolbar, which is empty on the left.
_HEIGHTS = (
    '[data-testid="stMainBlockContainer"] { padding-top: 3.75rem; } '
    '[data-testid="stMainBlockContainer"] h1 { padding: 0; font-size: 2rem; } '
    ".st-key-conversations_shown { margin-top: 0.5rem; } "
    '[data-testid="stMainBlockContainer"] h2 { padding: 0.5rem 0 0; font-size: 1.5rem; } '
    "@media (min-width: 641px) { [class*='st-key-figure_title_'] { margin-bottom: -2.75rem; z-index: 1; "
    "pointer-events: none; } }"
)
# A box of fixed height that has nothing to focus can only be scrolled with a mouse; here the tab key reaches it, too.
# Streamlit reads all controls from the address on Back, but overwrites the address when a visitor changes a control,
# and makes entries when the server adds or removes parameters, as those of a tab that closes. Here the first new
# address after each act of the visitor is an entry, and what follows by itself overwrites it: Back undoes the last act.
_SCRIPT = """<script>
if (!window.actsAreEntries) {
  window.actsAreEntries = true;
  const boxes = '[data-testid="stVerticalBlock"], [data-testid="stLayoutWrapper"], pre';
  const focusable = 'a[href], button, input, textarea, [tabindex="0"]';
  const reach = () => {
    window.reaching = 0;
    for (const box of document.querySelectorAll(boxes))
      if (box.scrollHeight > box.clientHeight && /auto|scroll/.test(getComputedStyle(box).overflowY)
          && !box.querySelector(focusable)) box.tabIndex = 0;
  };
  new MutationObserver(() => { window.reaching ||= setTimeout(reach, 300); })
    .observe(document.body, {childList: true, subtree: true});
  const push = history.pushState.bind(history), replace = history.replaceState.bind(history);
  let acted = false;
  for (const act of ['pointerdown', 'keydown', 'popstate'])
    addEventListener(act, () => { acted = act !== 'popstate'; }, true);
  history.pushState = history.replaceState = (state, title, url) => {
    const moves = new URL(url, location.href).href !== location.href;
    (acted && moves ? push : replace)(state, title, url);
    acted &&= !moves;
  };
}
</script>"""
_DARK_BUTTONS = 'body [data-testid^="stBaseButton-primary"]:not(:disabled) { color: #0E1718; }'


def show(title: str, draw: Callable[[], None], caption: str = "") -> None:
    """Draw a page under its title from the current journals; an ``AnamnesisError`` is shown by its message."""
    require_app()
    follow()
    lead_on()
    st.html(f"<style>{_CAPTIONS} {_TOOLBARS} {_HEIGHTS} {_DARK_BUTTONS if is_dark() else ''}</style>")
    forget_notes()
    draw_running()
    st.title(title, anchor=False)
    if caption:
        st.caption(caption)
    draw_refused()
    st.session_state.pop(REFUSED, None)
    with show_errors():
        fold_if_free(Store())
        keep_measured(Store())
        draw()
    st.html(_SCRIPT, unsafe_allow_javascript=True)  # at the end, because it takes the height of a gap


def draw_tabs(
    contents: Mapping[str, Callable[..., None] | tuple[Callable[..., None], str]], key: str, *arguments: object
) -> None:
    """Draw tabs by their titles, and the content of the open tab; the URL parameter ``key`` stores which one it is.

    The content is a function, called with ``arguments``, or such a function and the caption below what it draws.
    """
    for tab, content in zip(
        st.tabs(list(contents), key=key, on_change="rerun", bind="query-params"), contents.values(), strict=True
    ):
        if tab.open:
            draw, caption = content if isinstance(content, tuple) else (content, "")
            with tab:
                draw(*arguments)
                if caption:
                    st.caption(caption)


def draw_fold(title: str, draw: Callable[[], object], key: str, icon: str, *, open_: bool = False) -> None:
    """Draw a section folded up, which computes nothing while it is closed; ``open_`` says whether it starts open."""
    box = st.expander(title, expanded=open_, key=key, icon=f":material/{icon}:", on_change="rerun")
    if box.open:
        with box, show_errors(icon=":material/error:"):
            draw()


def draw_shown(
    sections: Mapping[str, Callable[..., None]],
    *arguments: object,
    key: str = _SECTION,
    where: DeltaGenerator | None = None,
) -> None:
    """Ask which one of the sections to show, at first the first, and call its function with ``arguments``.

    The URL parameter ``key`` has its title and decides at every run, so that Back and Forward restore it. ``where`` is
    the place of the control, such as that of a page's own controls in a ``FilterRow``.
    """
    title = choose_by_name("Show", list(sections), key, key, default=next(iter(sections)), where=where, width=208)
    sections[title](*arguments)


@dataclass(frozen=True)
class RunningWork:
    """A running job or consultation: its title, progress (``None`` if unknown), and the page that shows it.

    ``waits`` is true if all of its calls are in a provider's batch.
    """

    title: str
    done: int | None = None
    planned: int | None = None
    words: str = ""
    waits: bool = False
    page: str = ""
    query: dict[str, str] = field(default_factory=dict)

    @property
    def in_words(self) -> str:
        counted = f"{self.done:,} of {self.planned:,}" if self.planned else ""
        return ": ".join(filter(None, (self.title, "; ".join(filter(None, (counted, self.words))))))


def running_work() -> list[RunningWork]:
    """Return the running campaigns and jobs of all processes, and this server's jobs and consultations."""
    jobs = running_campaigns()
    runs_by_id = {run.run_id: run for run in ask(runs, tuple(jobs))} if jobs else {}
    work = []
    for run_id, progress in jobs.items():
        run = runs_by_id.get(run_id)
        query = {"run": run_id} if run else {}
        title = run_title(run) if run else "A job of the command line"
        waits = bool(progress.get("batch"))
        done, planned, words = (progress[name] for name in ("done", "planned", "words"))
        work.append(RunningWork(title, done, planned, words, waits, "runs", query))
    for job in running_jobs():
        if job.title == MEASURING and job.planned <= _SOON_MEASURED:
            continue
        time_left = f"about {duration(job.seconds_left)} left" if job.seconds_left else ""
        words = ", ".join(filter(None, (job.step.lower(), time_left)))
        done, planned = (None, None) if job.step else (job.done, job.planned)  # a step counts megabytes
        work.append(RunningWork(job.title, done, planned, words))
    for entry in running_sessions():
        title = f"Consultation on {case_label(entry.case) if entry.case else entry.session.title}"
        words = "paused" if entry.session.paused else f"message {len(entry.session.dialogue) + 1}"
        work.append(RunningWork(title, words=words, page="live", query={"trial": entry.trial_id}))
    return work


def draw_running() -> None:
    """Draw a line with the running work, redrawn every two seconds; nothing if nothing runs.

    Work that the page itself shows is left out. The container is drawn in any case, because elements below would
    otherwise move and briefly appear twice.
    """
    place = st.container()
    here = st.session_state.get("_page")
    on_home = {"trial": st.session_state.get(DEMONSTRATION)} if not here else None

    def work_elsewhere() -> list[RunningWork]:
        return [item for item in running_work() if (item.page != here or not item.query) and item.query != on_home]

    if not work_elsewhere():
        return

    @st.fragment(run_every=_LOOKS_EVERY_S)
    def line() -> None:
        work = work_elsewhere()
        with st.container(horizontal=True, vertical_alignment="center", gap="small", key="under_way"):
            for item in work[:2]:
                icon = "hourglass_top" if item.waits else "sync"
                if item.page:
                    link(item.page, plain(item.in_words), icon, **item.query)
                else:
                    st.caption(f":material/{icon}: {plain(item.in_words)}")
            if len(work) > 2:
                st.caption(f"and {len(work) - 2} more")
            if not work:
                st.caption(":material/check: All jobs have ended.")

    with place:
        line()
