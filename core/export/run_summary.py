"""The summary of a run: one page of Markdown: the doctor, the cases, the accuracy of each arm, the cost, and remarks.

The command line and the dashboard share it; its figures are those of ``report accuracy`` for this run.
"""

from __future__ import annotations

from datetime import UTC, datetime

from core.errors import UsageError
from core.export.page import MARKDOWN
from core.frameworks.base import frameworks, role_title, seats_at_work, tested_seat, title_of
from core.frameworks.casting import STORED_SEATS
from core.jobs.plan import names_of, remarks_of
from core.measures.accuracy import accuracy
from core.store.database import Store
from core.store.queries.run_labels import Label, labels
from core.store.queries.runs import runs
from core.store.selection import Selection
from core.words import FORMAT, QUESTION_TYPE, ROLE, VERDICT


def summary_of(store: Store, run_id: str) -> str:
    """Return the summary of a run in Markdown; raises ``UsageError`` if it is not stored.

    Accuracy is the mean over a case's trials, then over cases, with a 95 % interval over cases. The verdicts are the
    current ones.
    """
    with store.read() as cursor:
        run = next(iter(runs(cursor, [run_id])), None)
        label = labels(cursor).get(run_id, Label())
    if run is None:
        raise UsageError(f"There is no run {run_id}: `python -m core runs` lists them.")
    framework = frameworks().get(run.protocol)
    rows = accuracy(store, selection=Selection(runs=[run_id]), mcq_rule="usual")
    cast = {role: getattr(run, role) for role in STORED_SEATS}
    if framework is not None:
        names = names_of(framework, cast, run.settings)
        seats = seats_at_work(framework, names[tested_seat(framework).role], run.arms)
        cast = {role_title(framework, role): names[role] for role in (tested_seat(framework).role, *seats)}
    values = {
        "run": run,
        "label": label,
        "title": label.name or f"{run.doctor} on {run.case_set}",
        "protocol": title_of(run.protocol),
        "started": f"{datetime.fromtimestamp(run.created_at, UTC):%Y-%m-%d %H:%M} UTC",
        "cast": {ROLE.get(role, role): name for role, name in cast.items() if name},
        "settings": {
            name: value
            for name, value in run.settings.items()
            if value not in (None, "", False) and name != "prompts_by_seat"
        },
        "remarks": remarks_of(run) if framework is not None else (),
        "rows": [row for row in rows if row["model"] == rows[0]["model"]],
        "FORMAT": FORMAT,
        "QUESTION_TYPE": QUESTION_TYPE,
        "VERDICT": VERDICT,
        "ROLE": ROLE,
    }
    return MARKDOWN.get_template("run_summary.md.j2").render(values)
