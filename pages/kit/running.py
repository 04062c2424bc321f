"""What is under way on this server and beside it: one line on every page, with the way to it."""

from dataclasses import dataclass, field

import streamlit as st

from core.jobs.progress import under_way as jobs_under_way
from core.store.runs import runs
from core.work import under_way as work_under_way
from pages.kit.cached import ask
from pages.kit.campaigns import run_title
from pages.kit.look import duration, plain
from pages.kit.navigation import link
from pages.kit.sessions import running_sessions

_LOOKS_EVERY_S = 2.0


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
    def how_far(self) -> str:
        """What was done of how much, and what else is known, in a few words."""
        counted = f"{self.done:,} of {self.planned:,}" if self.planned else ""
        return "; ".join(filter(None, (counted, self.words)))


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
    for work in work_under_way():
        left = f"about {duration(work.seconds_left)} left" if work.seconds_left else ""
        found.append(UnderWay(work.title, work.done, work.planned, left))
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
                words = f"{one.title}: {one.how_far}" if one.how_far else one.title
                icon = "hourglass_top" if one.waits else "sync"
                if one.page:
                    link(one.page, plain(words), icon, **one.query)
                else:
                    st.caption(f":material/{icon}: {plain(words)}")
            if len(found) > 2:
                st.caption(f"and {len(found) - 2} more")
            if not found:
                st.caption(":material/check: What was under way is over.")

    with place:
        line()
