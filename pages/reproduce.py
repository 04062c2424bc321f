"""The tables of the paper, cell by cell: published, recomputed from the imported release, match or why not."""

import streamlit as st

from core.errors import AnamnesisError
from core.measures.reproduce.release import STATUSES
from core.store.database import Store
from pages.parts.figure_controls import RELEASED
from pages.parts.figures import model_name
from pages.parts.look import plain
from pages.parts.navigation import require_app
from pages.parts.reproduce_view import STATUS, cells_table, draw_remarks, overview, reproduction

require_app()

_MOST_CELLS = 5_000

st.title("Reproduce", anchor=False)
st.caption(
    f"Every table of {RELEASED.title} ({RELEASED.source}) recomputed from the authors' released answers under the "
    "paper's own rules, cell by cell."
)
try:
    result = reproduction(Store().version)
except AnamnesisError as error:
    st.info(plain(str(error)), icon=":material/upload_file:")
    st.markdown(
        "The authors' release is on their public repository. With it, this page shows each printed number beside the "
        "recomputed one, and the misprints with their evidence."
    )
    st.stop()

counts = result.counts
columns = st.columns(4)
for column, status, name in zip(columns, STATUSES, ("Match", "Misprint", "Differ", "Not attempted"), strict=True):
    column.metric(name, f"{counts[status]:,}", border=True)
st.caption(
    "Imported: " + ", ".join(f"{model_name(label)} ({data.cases:,} cases)" for label, data in result.models.items())
)
st.dataframe(overview(result), hide_index=True, height=360)

numbers = list(dict.fromkeys(cell.table for cell in result.cells))
left, right = st.columns([3, 2])
number = left.selectbox(
    "Table", numbers, key="reproduce_table", bind="query-params",
    format_func=lambda n: f"Table {n}: {result.titles.get(n, '')}",
)  # fmt: skip
wanted = right.pills(
    "Results", STATUSES, selection_mode="multi", default=list(STATUSES[:3]), format_func=STATUS.__getitem__,
    key="reproduce_status", bind="query-params",
)  # fmt: skip
cells = [cell for cell in result.cells if cell.table == number and cell.status in wanted]
if cells:
    table = cells_table(cells[:_MOST_CELLS])
    st.dataframe(table, hide_index=True, height=min(38 + 35 * len(table), 420))
    st.download_button("Download as CSV", table.to_csv(index=False), f"{RELEASED.name}-table-{number}.csv", "text/csv",
                       icon=":material/download:")  # fmt: skip
else:
    st.caption("No cell of this table has such a result; add “not attempted” to see why.")
draw_remarks(result, number)
st.subheader("What is wrong or unclear in print", anchor=False)
draw_remarks(result)
