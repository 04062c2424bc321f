"""``export training`` and ``train``: a training set of golden dialogues, and a small local model fine-tuned on it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from core.case import Case
from core.cli.options import CaseSample, WithCases, folded_store
from core.datasets.licences import texts_may_leave
from core.datasets.select import select
from core.errors import UsageError
from core.export.withheld import withheld_in_words
from core.frameworks.base import publisher
from core.store.queries.history_items import newest_items
from core.text.case_items import ORDERS, ItemSet, items_from_json

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
    with_cases: WithCases = False,
) -> int:
    """Write golden dialogues of a doctor who takes the history as chat JSONL, with train and test cases kept apart."""
    from core.training.export import ExportSettings, build, write
    from core.training.split import LEAST_TEST

    if order not in ORDERS:
        raise UsageError(f"{order!r} is no order: use {', '.join(ORDERS)}.")
    settings = ExportSettings(order=order, seed=seed, test_share=test_share, similar=similar, dialogues=dialogues)
    selected = [case for selection in cases or ["library"] for case in select(selection, limit, sample, seed)]
    chosen = [case for case in selected if with_cases or texts_may_leave(case)]
    withheld = len(selected) - len(chosen)
    if withheld and not chosen:
        raise UsageError(withheld_in_words(withheld))
    with folded_store().read() as cursor:
        stored = newest_items(cursor, [case.case_key for case in chosen])
    by_case = {(s.case_key, s.content_hash): s for s in stored}

    def items_of(case: Case) -> ItemSet | None:
        items = by_case.get((case.case_key, case.content_hash))
        return ItemSet(items_from_json(items.items), items.made_by) if items else None

    training = build(chosen, settings, items_of)
    write(out, training, force=force)
    if withheld:
        print(withheld_in_words(withheld))
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
    for source in training.manifest.sources:
        print(f"Licence of the {source.cases:,} cases of {source.dataset} ({source.source}): {source.licence}.")
    return 0


def train(
    model: Annotated[str, typer.Option(help="Folder of a causal language model, or its Hugging Face name.")],
    data: Annotated[Path, typer.Option(help="Folder that `export training` has written.")],
    out: Annotated[Path, typer.Option(help="Folder for the trained model; it must not exist yet.")],
    epochs: Annotated[int, typer.Option(min=1, help="Passes over all dialogues.")] = 4,
    lr: Annotated[float, typer.Option(help="Learning rate.")] = 1e-3,
    batch_size: Annotated[int, typer.Option(min=1, help="Dialogues per step.")] = 2,
    max_length: Annotated[int, typer.Option(min=16, help="Maximum tokens of a dialogue.")] = 2048,
    seed: Annotated[int, typer.Option(help="Decides order and adapters; on a CPU, the whole result.")] = 0,
) -> int:
    """Fine-tune a small local model on the doctor's words with adapters (LoRA), which are merged at the end.

    Stopped by Ctrl-C or killed, it resumes from its last checkpoint when the same command is given again.
    """
    from core.training.finetune import FineTuneSettings, fine_tune

    if not lr > 0:
        raise UsageError(f"--lr must be above 0, not {lr:g}.")
    settings = FineTuneSettings(epochs=epochs, lr=lr, batch_size=batch_size, max_length=max_length, seed=seed)
    metrics = fine_tune(model, data, out, settings)
    print(f"Trained {metrics.steps:,} steps: loss {metrics.losses[0]:.4f} at first, {metrics.losses[-1]:.4f} at last.")
    if metrics.left_out:
        print(f"{metrics.left_out} dialogues were left out: no word of the doctor is within --max-length.")
    if not metrics.takes_system:
        print('The model\'s chat template has no system role: set system_role = "user" for it in the models file.')
    protocol, doctor = publisher("history").name, f"hf/{out.absolute()}"
    print(f"Use it with: python -m core run --protocol {protocol} --doctor {doctor}")
    print(f"What changed: python -m core report history --part change --models BEFORE,{doctor}")
    return 0
