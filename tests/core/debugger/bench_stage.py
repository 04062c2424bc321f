"""A small bench: one case, played by models of a fake provider or by the reference cast, and prompt packs to change."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from core import paths
from core.asking.parts import PromptPart
from core.debugger.branching import start_at
from core.debugger.run import BenchRun, start_bench
from core.debugger.steps import Step, TrialRecord, steps_of_trial
from core.debugger.stored import load_record
from core.errors import UsageError
from core.frameworks.base import Arm, Campaign
from core.frameworks.casting import CastNames
from core.frameworks.craftmd import CraftMdSettings
from core.frameworks.craftmd.release import RELEASE
from core.jobs.release.importing import import_release
from core.live.branch import BranchPlan, start_branch, stored_origin
from core.live.session import Session
from core.models.registry import load_registry
from core.prompts import own_packs_folder
from core.store.database import Store
from core.store.queries.trials import trials_about
from tests.core.frameworks.stage import CASE, NAMES, QUICK
from tests.support.release import write_release

ARMS: tuple[Arm, ...] = (
    ("vignette", "mcq"), ("vignette", "frq"), ("multi_turn", "mcq"), ("multi_turn_exam", "frq"), ("summarized", "frq"),
)  # fmt: skip
REFERENCE = CastNames("reference/bayes")


def campaign(**changes: Any) -> Campaign:
    fields: dict[str, Any] = {"names": NAMES, "cases": (CASE,), "case_set": "stage:1", "arms": ARMS, "trials": 1}
    return Campaign(**{**fields, **changes})


def bench(base_url: str | None = None, *, settings: dict[str, Any] | None = None, **changes: Any) -> BenchRun:
    """Run a campaign of the debugger to its end, with every model at ``base_url``."""
    fields = {"settings": CraftMdSettings(base_url=base_url, **(settings or {})), **changes}
    run = start_bench(campaign(**fields), load_registry(retry=QUICK))
    run.join(60)
    assert not run.running, "the run did not end"
    return run


def branches(
    trial: TrialRecord, key: str, messages: Sequence[PromptPart] | None = None, **changes: Any
) -> list[Session]:
    """Play a branch that begins with the request of a step, and its repetitions, to the end."""
    all_steps, origin = steps_of_trial(trial), stored_origin(trial.trial_id)
    step = next(step for step in all_steps if step.key == key)
    start = start_at(trial, all_steps, step, step.messages if messages is None else messages)
    arms: tuple[Arm, ...] = tuple((format_, kind) for format_, kind in trial.header.arms)  # type: ignore[misc]
    plan = BranchPlan(start.turn, names=origin.names, settings=origin.settings_with(), arms=start.arms or arms)
    plan = replace(plan, request=start.request, many_choices=start.many_choices)
    sessions = start_branch(replace(plan, **changes), origin)
    for session in sessions:
        session.join(60)
    return sessions


def branched(trial: TrialRecord, key: str, messages: Sequence[PromptPart] | None = None, **changes: Any) -> TrialRecord:
    """Return the stored trial of a branch; raise ``UsageError`` with the message if it broke off."""
    (session,) = branches(trial, key, messages, **changes)
    if session.error is not None:
        raise UsageError(session.error)
    record = load_record(session.key)
    assert record is not None
    return record


def steps(trial: TrialRecord) -> dict[str, Step]:
    return {step.key: step for step in steps_of_trial(trial)}


def sent_in(steps_by_key: dict[str, Step]) -> dict[str, Any]:
    """Return step → sent messages. Keys of grader steps contain the messages, since any arm may be the first."""
    graded = ("extract", "judge")
    return {
        f"{step.kind}:{step.sent}" if step.kind in graded else key: step.sent
        for key, step in steps_by_key.items()
        if step.call
    }


def import_release_of(root: Path, files: dict[str, Any], rows: list[dict[str, str]]) -> dict[str, list[str]]:
    """Import files of the model mistral-v1; return case key → trial ids by number."""
    layout = RELEASE.find(write_release(root, {"mistral-v1": files}, rows), root.name)
    import_release(Store(), layout, layout.chosen(None))
    with Store().read() as cursor:
        keys = [f"craftmd/{case_id}" for case_id in files]
        return {key: [p.trial_id for p in trials_about(cursor, "craftmd-mistral-v1", key)] for key in keys}


def a_pack(name: str, **replaced: str) -> Path:
    """Make a user's pack: a copy of craftmd with other templates."""
    folder = own_packs_folder() / name
    if not folder.exists():
        shutil.copytree(paths.PROMPTS / "craftmd", folder)
    for prompt, template in replaced.items():
        path = folder / f"{prompt}.md"
        header = path.read_text().split("\n---\n", 1)[0]
        path.write_text(f"{header}\n---\n{template}\n")
    return folder
