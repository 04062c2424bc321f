"""Models that the program can download: their details, the download button, and the progress."""

import streamlit as st

from core import access
from core.callbacks import StepProgress
from core.frameworks.base import publisher
from core.jobs.background import Job, begin, job_at
from core.jobs.progress import Stop
from core.models.fetch import OFFERS, details, get
from core.models.register import own_names
from pages.kit.jobs import draw_work
from pages.kit.look import in_callback, plain
from pages.kit.navigation import link
from pages.kit.seats import RULES
from pages.kit.visitor import only

_MB = 1_000_000


def fetching(name: str) -> Job[str] | None:
    """Return the running or the last download of an offered model in this process."""
    return job_at(("models", "get", name))


def draw_offers() -> None:
    """Draw the models that are not downloaded yet, and a link to a consultation with one that just was."""
    own_models = own_names()
    offered = []
    for name in OFFERS:
        work = fetching(name)
        if work is not None and work.running:
            words = (OFFERS[name].title, "Starting…", f"get_{name}", "MB")
            st.fragment(draw_work, run_every=0.5)(work, *words, figures=False, stopped="Nothing is installed then.")
        elif f"hf/{name}" not in own_models:
            offered.append(name)
        elif work is not None and work.result:
            with st.container(horizontal=True, vertical_alignment="center"):
                st.markdown(f":material/check: {plain(OFFERS[name].title)} is ready.", width="content")
                # So small a model can only take a history: rules play the other seats.
                other_seats = dict.fromkeys(("patient", "solver", "grader"), RULES)
                framework = publisher("history").title
                link(
                    "live",
                    "Watch it consult",
                    "play_circle",
                    doctor=work.result,
                    live_protocol=framework,
                    **other_seats,
                )
                link(
                    "runs", "Run it on cases", "play_arrow", doctor=work.result, runs_protocol=framework, **other_seats
                )
    if not offered:
        return
    with st.container(border=True):
        st.markdown("**A language model without key or server**")
        for column, name in zip(st.columns(len(offered), gap="large"), offered, strict=True):
            offer, work = OFFERS[name], fetching(name)
            with column:
                st.button(
                    f"Get {offer.title}",
                    icon=":material/download:",
                    key=f"get_{name}",
                    on_click=in_callback(_begin),
                    args=(name,),
                    **only("local"),
                )
                st.caption(" · ".join(plain(words) for label, words in details(offer).items() if label != "Model"))
                if work is not None and work.error:
                    st.warning(plain(work.error), icon=":material/cloud_off:")


def _begin(name: str) -> None:
    access.require("local")  # before the thread starts: a forged click starts nothing

    def do(tell: StepProgress, stop: Stop) -> str:
        def tell_megabytes(done: int, planned: int, step: str = "") -> None:
            tell(done // _MB, planned // _MB, step)

        return get(name, on_progress=tell_megabytes, stop=stop)

    begin(("models", "get", name), do, f"Getting {OFFERS[name].title}")
