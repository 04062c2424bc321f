"""A small bench: one case, played by models of a fake provider or by the reference cast, and prompt packs to change."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core import paths
from core.asking.parts import PromptPart
from core.debugger.question import outcome_of
from core.debugger.run import BenchRun, start_bench
from core.debugger.steps import Step, TrialRecord, steps_of_trial
from core.debugger.variants import Variant, start_rerun
from core.errors import UsageError
from core.frameworks.base import Arm, Campaign
from core.frameworks.casting import CastNames
from core.frameworks.craftmd import CraftMdSettings
from core.frameworks.craftmd.release import RELEASE
from core.jobs.release.importing import import_release
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


def run_again(step: Step, messages: Sequence[PromptPart], trial: TrialRecord, **options: Any) -> Variant:
    """Run a step again to its end; raise ``UsageError`` with the message if nothing could be sent."""
    started = start_rerun(step, messages, trial, **options)
    started.join(60)
    if started.error is not None:
        raise UsageError(started.error)
    return outcome_of(started)  # type: ignore[no-any-return]


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
