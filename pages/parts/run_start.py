"""Asks for a campaign, shows what it will take, and starts it in a process of its own."""

import streamlit as st

from core.errors import AnamnesisError
from core.frameworks.base import Campaign
from core.jobs.estimate import estimate
from core.jobs.plan import header_of, in_full, remarks_of
from core.jobs.run import Options, check_prompts, check_startable, start
from core.models.registry import load_registry
from pages.parts.framework_form import ask_framework
from pages.parts.look import plain
from pages.parts.run_form import ask_draft
from pages.parts.setup import registry
from pages.parts.work_progress import draw_estimate

_WANTED = "runs_form_wanted"


def form_is_wanted() -> bool:
    """Say whether the form is to stand open: an address that names a protocol and no run asks for it until a start."""
    if "runs_protocol" in st.query_params and "run" not in st.query_params:
        st.session_state[_WANTED] = True  # the address forgets the protocol when it is the default one again
    return bool(st.session_state.get(_WANTED))


def ask_campaign() -> None:
    """Draw the form; start the campaign when its button is pressed."""
    known = ask_framework("runs", "Figures of different protocols are never mixed.")
    st.caption(f"{known.about} A campaign goes on when this page is closed.")
    draft = ask_draft(known)
    if draft.note:
        st.caption(f":material/filter_alt: {draft.note}")
    if draft.problem:
        st.warning(plain(draft.problem), icon=":material/error:")
    if draft.campaign is None:
        return
    try:
        campaign = _checked(draft.campaign)
        size = estimate(campaign, registry(), draft.options.concurrency)
    except AnamnesisError as error:
        if draft.problem is None:  # a model that is not known was said above
            st.warning(plain(str(error)), icon=":material/error:")
        return
    draw_estimate(size)
    if remarks := remarks_of(campaign):
        st.caption(f":material/flag: Mind that {plain(' and that '.join(remarks))}.")
    ready = draft.problem is None
    if st.button("Start the campaign", type="primary", icon=":material/play_arrow:", disabled=not ready):
        _start(campaign, draft.options)


def _checked(campaign: Campaign) -> Campaign:
    """Return a campaign with its protocol's defaults; raise ``UsageError`` where it cannot be run as asked."""
    full = in_full(campaign, registry())
    check_prompts(full)
    return full


def _start(campaign: Campaign, options: Options) -> None:
    own = load_registry()
    try:
        check_startable(campaign, own, options)
        header = header_of(campaign, own)
        with st.spinner("Starting…"):
            start(header, options.concurrency, options.budget_usd)
    except AnamnesisError as error:
        st.error(plain(str(error)))
        return
    st.session_state.pop(_WANTED, None)
    st.query_params["run"] = header.run_id
    st.rerun()
