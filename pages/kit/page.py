"""The frame of a page: what is under way, title, contents, tabs, and what is said where something is not there."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import streamlit as st

from core.jobs.background import running_jobs
from core.jobs.progress import under_way as jobs_under_way
from core.store.database import Store
from core.store.fold import fold_if_free
from core.store.queries.runs import runs
from pages.kit.cached import ask
from pages.kit.campaigns import run_title
from pages.kit.controls import choose
from pages.kit.look import draw_refused, duration, faults_said, plain
from pages.kit.names import IMPORT_COMMAND
from pages.kit.navigation import follow, link, require_app
from pages.kit.notes import forget_notes
from pages.kit.sessions import running_sessions

_LOOKS_EVERY_S = 2.0


def show(title: str, draw: Callable[[], None], caption: str = "") -> None:
    """Draw a page under its title, on what the journals hold by now; a fault of ours is said in its sentence."""
    require_app()
    follow()
    forget_notes()
    draw_running()
    st.title(title, anchor=False)
    if caption:
        st.caption(caption)
    draw_refused()
    with faults_said():
        fold_if_free(Store())
        draw()


def draw_sections(sections: Mapping[str, Callable[..., None]], key: str, *shown: object) -> None:
    """Draw tabs by their titles, and in the open one its section, which is given what is ``shown``.

    Which one is open stands in the address.
    """
    tabs = st.tabs(list(sections), key=key, on_change="rerun", bind="query-params")
    for tab, draw in zip(tabs, sections.values(), strict=True):
        if tab.open:
            with tab:
                draw(*shown)


def draw_parts(parts: Mapping[str, tuple[Callable[[], None], str]], key: str) -> None:
    """Ask for a part of a page by its title, and draw it below its caption; the choice stands in the address."""
    chosen = choose("Part", list(parts), key, shape="segments", hidden=True)
    draw, caption = parts[chosen]
    if caption:
        st.caption(caption)
    draw()


def say_how_to_begin(
    missing: str,
    *,
    release: bool = True,
    instead: str = "Or start a campaign of your own; the reference cast needs no key.",
    icon: str = "menu_book",
) -> None:
    """Say what is not there yet and lead on: to the authors' release (``release``), and to a run of one's own.

    ``missing`` is a sentence in Markdown; ``instead`` stands for what a run of one's own is good for here.
    """
    words = [missing]
    if release:
        words.append(
            f"Import the authors’ public release: `{IMPORT_COMMAND}`, where PATH is a folder or archive of their "
            "repository."
        )
    st.info(" ".join([*words, instead]), icon=f":material/{icon}:")
    link("runs", "Start a campaign", "play_arrow")


@dataclass(frozen=True)
class UnderWay:
    """Something that goes on: in words, how far (``None`` where that is not known), and the page that shows it.

    It ``waits`` where all of it is in a batch of a provider's.
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
        """What it is, what was done of how much, and what else is known, in a few words."""
        counted = f"{self.done:,} of {self.planned:,}" if self.planned else ""
        return ": ".join(filter(None, (self.title, "; ".join(filter(None, (counted, self.words))))))


def under_way() -> list[UnderWay]:
    """Return the campaigns and jobs of any process, the work of this server, and the consultations that are held."""
    jobs = jobs_under_way()
    named = {run.run_id: run for run in ask(runs, tuple(jobs))} if jobs else {}
    found = []
    for run_id, told in jobs.items():
        run = named.get(run_id)
        shown = {"run": run_id} if run else {}
        title = run_title(run) if run else "A job of the command line"
        waits = bool(told.get("batch"))
        found.append(UnderWay(title, told["done"], told["planned"], told["words"], waits, "runs", shown))
    for job in running_jobs():
        left = f"about {duration(job.seconds_left)} left" if job.seconds_left else ""
        found.append(UnderWay(job.title, job.done, job.planned, left))
    for held in running_sessions():
        title = f"A consultation about {held.session.title}"
        words = "paused" if held.session.paused else f"message {len(held.session.dialogue) + 1}"
        found.append(UnderWay(title, words=words, page="live", query={"trial": held.trial_id}))
    return found


def draw_running() -> None:
    """Draw a line for what is under way, again every two seconds; nothing where there is nothing.

    Its place is held also then: what stands below would move up, and be seen twice for a moment.
    """
    place = st.container()
    if not under_way():
        return

    @st.fragment(run_every=_LOOKS_EVERY_S)
    def line() -> None:
        found = under_way()
        with st.container(horizontal=True, vertical_alignment="center", gap="small", key="under_way"):
            for one in found[:2]:
                icon = "hourglass_top" if one.waits else "sync"
                if one.page:
                    link(one.page, plain(one.in_words), icon, **one.query)
                else:
                    st.caption(f":material/{icon}: {plain(one.in_words)}")
            if len(found) > 2:
                st.caption(f"and {len(found) - 2} more")
            if not found:
                st.caption(":material/check: What was under way is over.")

    with place:
        line()
