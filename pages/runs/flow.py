"""The flow diagram of a run, computed when it is opened."""

import streamlit as st

from core.measures.flow import Flow
from core.report.flow import WIDTH, flow_of, flow_svg
from core.store.database import Store
from core.store.queries.runs import RunProgress
from pages.kit.cached import cached_query
from pages.kit.figures import draw_svg, is_dark


def draw_flow(run: RunProgress) -> None:
    box = st.expander(
        "Flow: from the cases to the answers that count",
        icon=":material/account_tree:",
        on_change="rerun",
        key=f"flow_{run.run_id}",
    )
    if not box.open:
        return
    with box:
        flow = _flow(run.run_id)
        counts = "; ".join(
            f"{stage.title}: {stage.n:,}, of these {sum(loss.n for loss in stage.losses):,} lost"
            for stage in flow.stages
            if stage.n is not None
        )
        draw_svg(flow_svg(flow, dark=is_dark()), WIDTH, f"Flow diagram. {counts}")
        st.download_button(
            "Flow (SVG)",
            lambda: flow_svg(flow),
            f"{run.run_id}-flow.svg",
            "image/svg+xml",
            key=f"flow_file_{run.run_id}",
            on_click="ignore",
            icon=":material/download:",
        )


@cached_query()
def _flow(run_id: str) -> Flow:
    return flow_of(Store(), [run_id])
