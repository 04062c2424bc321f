"""``bundle``: makes and verifies a zip with everything behind the figures of some runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from core.cli.options import Out, WithCases, WithNames, counting_bytes, folded_store, new_file, print_names, run_id_of
from core.errors import UsageError
from core.report.bundle import make_bundle
from core.report.bundle_check import verify_bundle

app = typer.Typer(no_args_is_help=True, help="Bundle runs for an archive or reviewers.", rich_markup_mode=None)
_SHOWN = 20
"""Differing cells that are printed; the others are counted."""


@app.command("make")
def make(
    run: Annotated[list[str], typer.Argument(metavar="RUN...", help="Ids of runs, or the beginnings of them.")],
    out: Out,
    with_cases: WithCases = False,
    with_names: WithNames = False,
) -> int:
    """Write journals, cases, prompts, settings and figures of runs into one zip with checksums."""
    if out.suffix != ".zip":
        raise UsageError(f"{out}: the name must end in .zip.")
    store = folded_store()
    run_ids = list(dict.fromkeys(run_id_of(store, name) for name in run))
    with new_file(out) as file, counting_bytes() as show:
        made = make_bundle(store, run_ids, file, with_cases=with_cases, with_names=with_names, progress=show)
    print(f"Wrote {len(made.manifest.files) + 1:,} files of {len(run_ids):,} runs to {out} ({made.size:,} bytes).")
    print(f"SHA-256: {made.sha256}")
    for sentence in made.manifest.left_out:
        print(f"Left out: {sentence}")
    if not all(bundled.cases_inside for bundled in made.manifest.runs):
        print("To include the texts, if you have the right to pass them on: --with-cases")
    print_names(made.people, with_names=with_names)
    for figure in made.manifest.figures_left_out:
        print(f"Not inside: the figure {figure}, which needs what was left out.")
    print(f"Check it with: python -m core bundle verify {out}")
    return 0


@app.command("verify")
def verify(bundle: Annotated[Path, typer.Argument(metavar="STUDY.ZIP", help="A file from bundle make.")]) -> int:
    """Check every file of a bundle, and compute every figure again from its journals; status 1 if one differs."""
    with counting_bytes() as show:
        verified = verify_bundle(bundle, show)
    for sentence in verified.damage:
        print(f"Damaged: {sentence}")
    for cell in verified.differing[:_SHOWN]:
        print(f"Different: {cell}")
    if len(verified.differing) > _SHOWN:
        print(f"Different: {len(verified.differing) - _SHOWN:,} more cells")
    for figure in verified.manifest.figures_left_out:
        print(f"Not inside: the figure {figure}, which needs what was left out.")
    if not verified.sound:
        print(f"{bundle} is not as it was made, or gives other figures.", file=sys.stderr)
        return 1
    print(f"All {len(verified.manifest.files):,} files are as they were; equal: {', '.join(verified.figures)}.")
    return 0
