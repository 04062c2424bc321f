"""``export training`` and ``train``: a training set of golden dialogues, and a small local model fine-tuned on it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from core.case import Case
from core.cli.options import CaseSample, Croissant, folded_store
from core.datasets.select import select
from core.errors import UsageError
from core.frameworks.base import publisher
from core.store.queries.history_items import newest_items
from core.text.case_items import ORDERS, ItemSet, items_from_json
from core.words import duration

if TYPE_CHECKING:
    from core.training.finetune import TrainingProgress

_SHOWN_CLUSTERS = 10


def export_training(
    out: Annotated[Path, typer.Option(help="Folder for train.jsonl, test.jsonl and manifest.json.")],
    cases: Annotated[
        list[str] | None, typer.Option(help="DATASET, DATASET:SPECIALTY or DATASET:id,id (again for more).")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first N cases of each.")] = None,
    sample: CaseSample = None,
    order: Annotated[str, typer.Option(help="Order of the questions: direct, random or reversed.")] = "direct",
    dialogues: Annotated[int, typer.Option(min=1, help="Dialogues per case, each in other phrases.")] = 1,
    test_share: Annotated[float, typer.Option(help="Share of the cases reserved for test.")] = 0.4,
    similar: Annotated[float, typer.Option(help="Per cent of similarity that makes near-duplicates.")] = 75.0,
    seed: Annotated[int, typer.Option(help="Decides sample, phrases, order and split.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace a training set in that folder.")] = False,
    croissant: Croissant = None,
) -> int:
    """Write golden dialogues of a doctor who takes the history as chat JSONL, with train and test cases kept apart."""
    from core.training.export import ExportSettings, build, write
    from core.training.split import LEAST_TEST

    if order not in ORDERS:
        raise UsageError(f"{order!r} is no order: use {', '.join(ORDERS)}.")
    settings = ExportSettings(order=order, seed=seed, test_share=test_share, similar=similar, dialogues=dialogues)
    chosen = [case for selection in cases or ["library"] for case in select(selection, limit, sample, seed)]
    with folded_store().read() as cursor:
        stored = newest_items(cursor, [case.case_key for case in chosen])
    by_case = {(s.case_key, s.content_hash): s for s in stored}

    def items_of(case: Case) -> ItemSet | None:
        items = by_case.get((case.case_key, case.content_hash))
        return ItemSet(items_from_json(items.items), items.made_by) if items else None

    training = build(chosen, settings, items_of)
    write(out, training, force=force)
    for name, entry in training.manifest.files.items():
        print(f"Wrote {entry.dialogues:,} dialogues of {entry.cases:,} cases to {out / name}.")
    for row in training.manifest.specialties:
        print(f"  {row.specialty:<30} {row.train:>5} train {row.test:>5} test")
    n_test = training.manifest.files["test.jsonl"].cases
    if n_test < LEAST_TEST:
        print(
            f"Only {n_test} cases are kept for test: before and after training should be compared on {LEAST_TEST} or "
            "more. Take more --cases, or a larger --test-share."
        )
    clusters = training.manifest.near_duplicates
    print(f"{len(clusters)} clusters of near-duplicate cases, each on one side.")
    for cluster in clusters[:_SHOWN_CLUSTERS]:
        print(f"  {', '.join(cluster)}")
    if len(clusters) > _SHOWN_CLUSTERS:
        print(f"  and {len(clusters) - _SHOWN_CLUSTERS} more; manifest.json has them all.")
    if training.manifest.left_out:
        print(f"Left out {len(training.manifest.left_out)} cases whose question does not ask for a diagnosis.")
    if croissant:
        from core.interchange.croissant import FILE_NAME, description_of

        text = "Golden dialogues in which a doctor takes the history of a case."
        licences = {source.licence for source in training.manifest.sources}
        files = [out / name for name in training.manifest.files]
        description = description_of(files, out, out.name, text, croissant, licences)
        (out / FILE_NAME).write_bytes(description)
        print(f"Wrote their description to {out / FILE_NAME}.")
    for source in training.manifest.sources:
        print(f"Licence of the {source.cases:,} cases of {source.dataset} ({source.source}): {source.licence}.")
    return 0


def train(
    model: Annotated[str, typer.Option(help="Folder of a causal language model, or its Hugging Face name.")],
    data: Annotated[Path, typer.Option(help="Folder that `export training` has written.")],
    out: Annotated[Path, typer.Option(help="Folder for the trained model; it must not exist yet.")],
    epochs: Annotated[int, typer.Option(min=1, help="Passes over all dialogues.")] = 4,
    lr: Annotated[float | None, typer.Option(help="Learning rate; 2e-5, with --lora 1e-3.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Dialogues per step.")] = 2,
    max_length: Annotated[int, typer.Option(min=16, help="Maximum tokens of a dialogue.")] = 2048,
    seed: Annotated[int, typer.Option(help="Decides order and adapters; on a CPU, the whole result.")] = 0,
    lora: Annotated[bool, typer.Option("--lora/--no-lora", help="Train adapters (peft), merged at the end.")] = False,
    generate: Annotated[int, typer.Option(min=0, help="Test dialogues in which the model asks by itself.")] = 10,
    save_every: Annotated[
        int | None, typer.Option(min=1, help="Save a checkpoint also every N steps, not only after an epoch.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the estimate; train nothing.")] = False,
) -> int:
    """Fine-tune a small local model on the doctor's words, measured on the test cases before and after.

    Stopped by Ctrl-C, it saves the model so far; the same command continues from there, also after a kill.
    """
    from core.training.finetune import SAVE_EVERY, FineTuneSettings, estimate, fine_tune

    if lr is not None and not lr > 0:
        raise UsageError(f"--lr must be above 0, not {lr:g}.")
    settings = FineTuneSettings(
        epochs=epochs, lr=lr, batch_size=batch_size, max_length=max_length, seed=seed, lora=lora, generate=generate
    )
    if dry_run:
        size = estimate(model, data, settings)
        print(
            f"{size.dialogues['train']:,} dialogues to learn from, {size.dialogues['test']:,} to measure by: "
            f"{size.steps:,} steps, about {duration(size.seconds)} on {size.device}, without the measuring."
        )
        return 0
    with _progress() as show_progress:
        metrics = fine_tune(model, data, out, settings, show_progress, save_every=save_every or SAVE_EVERY)
    for name, figures in (("before", metrics.before), ("after", metrics.after)):
        if figures is not None:
            recall = "" if figures.key_recall is None else f", recall of keys {figures.key_recall:.3f}"
            print(f"Test {name}: loss {figures.loss:.4f}, perplexity {figures.perplexity:.2f}{recall}.")
    for side, used in metrics.data.items():
        if used.cut or used.left_out:
            print(f"Of {side}, {used.cut} dialogues were cut at --max-length and {used.left_out} left out for it.")
    if metrics.system_prompt == "user":
        print('The model\'s chat template has no system role: set system_role = "user" for it in the models file.')
    if not metrics.finished:
        print(
            f"Interrupted after step {len(metrics.losses)} of {metrics.planned_steps}; {out} holds the model so far. "
            "The same command continues from there."
        )
    print(f"Use it with: python -m core run --protocol {publisher('history').name} --doctor hf/{out.absolute()}")
    return 0 if metrics.finished else 1


@contextmanager
def _progress() -> Iterator[TrainingProgress]:
    """Yield a function that shows the training on stderr: a bar on a terminal, else a line for each tenth."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _TrainingLines()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[loss]}"),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", loss="")

        def show(what: str, done: int, planned: int, loss: float | None) -> None:
            words = "" if loss is None else f"loss {loss:.4f}"
            bar.update(task, description=what, completed=done, total=planned, loss=words)

        yield show


class _TrainingLines:
    """Prints a line when a phase begins, after its first step, and for each tenth."""

    def __init__(self) -> None:
        self._last_printed: tuple[object, ...] = ()
        self._phase, self._first_step, self._started_at = "", 0, 0.0

    def __call__(self, what: str, done: int, planned: int, loss: float | None) -> None:
        if what != self._phase:
            self._phase, self._first_step, self._started_at = what, done, time.monotonic()
        steps = done - self._first_step
        state = (what, steps > 0, 10 * done // max(1, planned))
        if state == self._last_printed:
            return
        self._last_printed = state
        words = "…" if loss is None and planned == 1 else f": step {done} of {planned}"
        words += "" if loss is None else f", loss {loss:.4f}"
        if steps and done < planned:
            words += f", about {duration((time.monotonic() - self._started_at) / steps * (planned - done))} left"
        print(f"{what}{words}", file=sys.stderr, flush=True)
