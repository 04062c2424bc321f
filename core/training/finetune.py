"""Fine-tunes a small local model on a training set and measures it before and after.

A plain loop (``learner``) and no Trainer: what is asked for (labels on the doctor's words, one seed for everything, a
stop between two steps, nothing half-written) is a page of torch, and a Trainer would have to be configured out of more.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from core.errors import AnamnesisError, UsageError
from core.training.chat import SIDES, ChatLine, Side, check_apart, read_side, sha256
from core.training.encoding import Encoded, encode_all
from core.training.evaluation import Evaluation, evaluate
from core.training.learner import Learner, enough_memory, library
from core.training.stopping import asked_to_stop

METRICS = "metrics.json"
LR = {False: 2e-5, True: 2e-4}
"""Usual learning rates: of a whole model, and of adapters."""


class Settings(BaseModel):
    """How to train. ``lr`` is ``None`` for the usual one; ``generate``: test dialogues in which questions are asked."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    epochs: int = Field(default=3, ge=1)
    lr: float | None = Field(default=None, gt=0)
    batch_size: int = Field(default=4, ge=1)
    max_length: int = Field(default=2048, ge=16)
    seed: int = 0
    lora: bool = False
    generate: int = Field(default=10, ge=0)

    @property
    def learning_rate(self) -> float:
        """The learning rate that is used."""
        return self.lr if self.lr is not None else LR[self.lora]


class DataUsed(BaseModel):
    """One side of the data: SHA-256 of the file, dialogues, those cut at ``max_length``, those left out for it."""

    sha256: str
    dialogues: int
    cut: int
    left_out: int


class Metrics(BaseModel):
    """What metrics.json says. ``finished`` is false after Ctrl-C: ``after`` is then ``None``.

    ``losses`` is the training loss of each step taken, of ``planned_steps``; ``template`` whose chat template was used.
    """

    model: str
    settings: Settings
    learning_rate: float
    data: dict[Side, DataUsed]
    device: str
    versions: dict[str, str]
    template: Literal["tokenizer", "plain"]
    system_prompt: Literal["system", "user"]
    planned_steps: int
    losses: list[float]
    before: Evaluation
    after: Evaluation | None
    finished: bool


Told = Callable[[str, int, int, float | None], None]
"""Told what is being done, how much of how much is done, and the last loss."""


def fine_tune(model: str, data: Path, out: Path, settings: Settings, told: Told | None = None) -> Metrics:
    """Train a model (a folder or a Hugging Face name) on the train side of a training set and write it to ``out``.

    ``out`` appears when everything is written, with metrics.json in it. Ctrl-C while training ends it after the step
    under way; what was learnt is kept. On a CPU the same settings and seed give the same model. Raises ``UsageError``
    and ``AnamnesisError``, in one sentence each, for whatever is missing, in the way or too big.
    """
    tell = told or _silent
    _check_free(out)
    lines = {side: read_side(data, side) for side in SIDES}
    check_apart(lines["train"], lines["test"])
    tell("loading", 0, 1, None)
    learner = Learner.load(model, seed=settings.seed, lora=settings.lora)
    with enough_memory(model):
        metrics = _train(learner, model, data, lines, settings, tell)
        with _whole(out) as half:
            learner.save(half)
            (half / METRICS).write_text(metrics.model_dump_json(indent=2) + "\n")
    return metrics


def batches(encoded: Sequence[Encoded], settings: Settings) -> list[list[Encoded]]:
    """Return the batches of all epochs in the order in which they are learnt, each epoch shuffled by the seed."""
    planned: list[list[Encoded]] = []
    for epoch in range(settings.epochs):
        order = random.Random(f"{settings.seed}:{epoch}").sample(list(encoded), len(encoded))
        planned += [order[i : i + settings.batch_size] for i in range(0, len(order), settings.batch_size)]
    return planned


def _train(
    learner: Learner, model: str, data: Path, lines: dict[Side, list[ChatLine]], settings: Settings, tell: Told
) -> Metrics:
    length = min(settings.max_length, learner.most_tokens or settings.max_length)
    encoded = {side: _encoded(learner, lines[side], length, side) for side in SIDES}
    shown = lines["test"][: settings.generate]

    def figures(what: str) -> Evaluation:
        tell(what, 0, 1, None)
        return evaluate(learner, encoded["test"], shown, settings.batch_size)

    before = figures("measuring before")
    planned = batches(encoded["train"], settings)
    with asked_to_stop() as stop:
        losses = learner.learn(
            planned, settings.learning_rate, lambda n, loss: tell("training", n, len(planned), loss), stop
        )
    if not losses:
        raise AnamnesisError("Interrupted before the first step: nothing was written.")
    finished = len(losses) == len(planned)
    return Metrics(
        model=model, settings=settings, learning_rate=settings.learning_rate,
        data={side: _used(data, side, lines[side], encoded[side]) for side in SIDES},
        device=str(learner.device), versions={n: library(n).__version__ for n in ("torch", "transformers")},
        template="tokenizer" if learner.chat.own_template else "plain",
        system_prompt="system" if learner.chat.takes_system else "user",
        planned_steps=len(planned), losses=losses, before=before,
        after=figures("measuring after") if finished else None, finished=finished,
    )  # fmt: skip


def _encoded(learner: Learner, lines: Sequence[ChatLine], length: int, side: Side) -> list[Encoded]:
    encoded = encode_all(learner.chat, lines, length)
    if not encoded:
        raise UsageError(
            f"No dialogue of {side}.jsonl has a word of the doctor within {length} tokens: raise --max-length."
        )
    return encoded


def _used(data: Path, side: Side, lines: Sequence[ChatLine], encoded: Sequence[Encoded]) -> DataUsed:
    return DataUsed(
        sha256=sha256((data / f"{side}.jsonl").read_bytes()), dialogues=len(encoded),
        cut=sum(one.cut for one in encoded), left_out=len(lines) - len(encoded),
    )  # fmt: skip


def _check_free(out: Path) -> None:
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise UsageError(f"{out} exists already: choose another folder for the model.")
    if not out.absolute().parent.is_dir():
        raise UsageError(f"There is no folder {out.absolute().parent}.")


@contextmanager
def _whole(out: Path) -> Iterator[Path]:
    """Yield a folder beside ``out`` that takes its place when all is written, and is gone when it is not."""
    half = out.absolute().with_name(f".{out.name}.{os.getpid()}.half")
    half.mkdir()
    try:
        yield half
        os.replace(half, out)
    finally:
        shutil.rmtree(half, ignore_errors=True)


def _silent(what: str, done: int, planned: int, loss: float | None) -> None:
    """Tell nobody."""
