"""Asks for a campaign, shows what it will take, and starts it in a process of its own."""

from collections.abc import Sequence

import streamlit as st

from core.errors import AnamnesisError
from core.frameworks.base import Campaign
from core.jobs.estimate import Estimate, estimate
from core.jobs.plan import header_of, in_full, remarks_of
from core.jobs.run import Options, check_prompts, check_startable, start
from core.models.registry import load_registry
from pages.parts.framework_form import ask_framework
from pages.parts.look import duration, money, plain
from pages.parts.run_form import ask_draft
from pages.parts.setup import registry

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
    _show_estimate(size, remarks_of(campaign))
    ready = draft.problem is None
    if st.button("Start the campaign", type="primary", icon=":material/play_arrow:", disabled=not ready):
        _start(campaign, draft.options)


def _checked(campaign: Campaign) -> Campaign:
    """Return a campaign with its protocol's defaults; raise ``UsageError`` where it cannot be run as asked."""
    full = in_full(campaign, registry())
    check_prompts(full)
    return full


def _show_estimate(size: Estimate, remarks: Sequence[str]) -> None:
    cost = size.cost_usd
    by_role = ", ".join(f"{role.role} {role.calls:,}" for role in size.roles if role.calls)
    with st.container(border=True):
        if remarks:
            st.caption(f":material/flag: Mind that {plain(' and that '.join(remarks))}.")
        columns = st.columns(6)
        columns[0].metric("Trials", f"{size.cases * size.trials:,}", help=f"{size.cases} cases × {size.trials} trials")
        columns[1].metric("Answers", f"{size.answers:,}", help="One for each trial and arm.")
        columns[2].metric(
            "Model calls", f"{size.calls:,}",
            help=f"Estimated: {by_role}." if by_role else "No model plays: the reference cast calls none.",
        )  # fmt: skip
        columns[3].metric(
            "Tokens", f"{size.tokens:,}", help="Estimated from the vignettes' length and typical replies."
        )
        columns[4].metric("Time", duration(size.seconds), help="Estimated, at so many trials at once.")
        columns[5].metric(
            "Cost", "unknown" if cost is None else money(cost),
            help="Unknown where data/models.toml has no price for one of the models." if cost is None else None,
        )  # fmt: skip


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
