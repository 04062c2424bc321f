"""Fine-tunes a small local model on a training set and measures it before and after.

A plain loop (``learner``) and no Trainer: what is asked for (labels on the doctor's words, one seed for everything, a
stop between two steps, nothing half-written) is a page of torch, and a Trainer would have to be configured out of more.
trl 1.16 would install beside the other packages and keeps a seed, but its SFTTrainer finds the assistant's words by
marks in the chat template, which it adds for the model families that it knows and refuses to do without: here any
template that repeats a conversation will do, and none at all (``encoding``).
"""

from __future__ import annotations

import math
import os
import pickle
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from core.callbacks import Stop
from core.errors import AnamnesisError, UsageError
from core.text.rouge import rouge_1, tokens
from core.training.chat import SIDES, ChatLine, Side, check_apart, read_side, sha256
from core.training.encoding import Encoded, encode_all
from core.training.learner import Learner, enough_memory, library

QUESTION_TOKENS = 40
"""A generated question is cut here."""


class Evaluation(BaseModel):
    """Figures of one model on the test side.

    ``loss``: mean cross entropy of the doctor's words, nats a token, over all ``tokens`` of all dialogues;
    ``perplexity``: its exponential. ``key_recall``: mean over ``asked`` dialogues of the ROUGE-1 recall (stemmed) of a
    case's keys in the questions that the model asks, each after the golden dialogue up to there (Liao et al., doctor's
    recall); ``None`` where no question was generated.
    """

    loss: float
    perplexity: float
    tokens: int
    key_recall: float | None
    asked: int


def evaluate(
    learner: Learner,
    encoded: Sequence[Encoded],
    lines: Sequence[ChatLine],
    batch_size: int,
    told: Callable[[int, int], None] = lambda *_: None,
) -> Evaluation:
    """Return the figures: loss on ``encoded``, questions on ``lines``; ``told`` how many of how many are measured."""
    learner.model.eval()
    everything = len(encoded) + len(lines)
    loss = count = 0.0
    with learner.torch.inference_mode():
        for start in range(0, len(encoded), batch_size):
            told(start, everything)
            some = encoded[start : start + batch_size]
            predicted = sum(one.predicted for one in some)
            loss += float(learner.loss(some)) * predicted
            count += predicted
    recalls = []
    for number, line in enumerate(lines):
        told(len(encoded) + number, everything)
        recalls.append(key_recall(line.keys, questions(learner, line)))
    return Evaluation(
        loss=loss / count,
        perplexity=math.exp(min(loss / count, 700.0)),
        tokens=int(count),
        key_recall=sum(recalls) / len(recalls) if recalls else None,
        asked=len(recalls),
    )


def questions(learner: Learner, line: ChatLine) -> list[str]:
    """Return what the model says in place of each of the doctor's questions, the golden ones before it being said."""
    messages = line.dumped()
    places = [n for n, message in enumerate(messages[:-1]) if message["role"] == "assistant"]
    return learner.replies([messages[:n] for n in places], QUESTION_TOKENS)


def key_recall(keys: Sequence[str], asked: Sequence[str]) -> float:
    """Return the ROUGE-1 recall of keys in questions: the doctor's recall (Liao et al.)."""
    return rouge_1(tokens(" ".join(keys)), tokens(" ".join(asked))).recall


METRICS = "metrics.json"
SAVE_EVERY = 200
"""Steps after which a checkpoint is written, beside the end of every epoch."""
_ALIKE = 8
"""Batches whose dialogues are dealt out among them by length."""
LR = {False: 2e-5, True: 1e-3}
"""Usual learning rates: of a whole model, and of adapters, which at the 2e-4 of larger sets learn next to nothing from
fifty dialogues."""


class Settings(BaseModel):
    """How to train. ``lr`` is ``None`` for the usual one; ``generate``: test dialogues in which questions are asked."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    epochs: int = Field(default=4, ge=1)
    lr: float | None = Field(default=None, gt=0)
    batch_size: int = Field(default=2, ge=1)
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
    """What metrics.json says. ``finished`` is false after a stop: ``after`` is then ``None``; ``before`` never is.

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
    losses: list[float] = []
    before: Evaluation | None = None
    after: Evaluation | None = None
    finished: bool = False


_SAME = set(Metrics.model_fields) - {"losses", "before", "after", "finished"}
"""What of the metrics is the same for the same training, however far it got."""


Told = Callable[[str, int, int, float | None], None]
"""Told what is being done, how much of how much is done, and the last loss."""


@dataclass(frozen=True)
class Estimate:
    """What a training takes: dialogues of either side, steps, and seconds by one step on the longest batch.

    The measuring before and after is not in ``seconds``.
    """

    dialogues: dict[Side, int]
    steps: int
    seconds: float
    device: str


def fine_tune(
    model: str, data: Path, out: Path, settings: Settings, told: Told = lambda *_: None, *, save_every: int = SAVE_EVERY
) -> Metrics:
    """Train a model (a folder or a Hugging Face name) on the train side of a training set and write it to ``out``.

    ``out`` appears when everything is written, with metrics.json in it. Ctrl-C or SIGTERM while training ends it after
    the step under way; what was learnt is kept. A checkpoint beside ``out`` is written every ``save_every`` steps and
    with each epoch's end: asked for again, a training that was stopped or killed goes on from there and ends as if
    nothing had been. On a CPU the same settings and seed give the same model. Raises ``UsageError`` and
    ``AnamnesisError``, in one sentence each, for whatever is missing, in the way or too big.
    """
    checkpoint = out.absolute().with_name(f".{out.name}.checkpoint")
    _check_free(out, checkpoint)
    lines = _lines(data)
    told("loading", 0, 1, None)
    learner = Learner.load(model, seed=settings.seed, lora=settings.lora)
    with enough_memory(model):
        encoded = _encoded(learner, lines, settings)
        metrics = _metrics(learner, model, data, lines, encoded, settings)
        shown = lines["test"][: settings.generate]

        def figures(what: str) -> Evaluation:
            return evaluate(
                learner, encoded["test"], shown, settings.batch_size, lambda done, of: told(what, done, of, None)
            )

        saved = _resumed(checkpoint, metrics, learner)
        metrics.before = saved.before if saved else figures("measuring before")
        metrics.losses = saved.losses if saved else []
        # take the steps that are left, with their losses in ``metrics``, up to the last or until somebody stops it
        planned = batches(encoded["train"], settings)
        losses, an_epoch = metrics.losses, len(planned) // metrics.settings.epochs
        told("training", len(losses), len(planned), losses[-1] if losses else None)
        with interrupted() as pressed:
            for some in planned[len(losses) :]:
                if pressed():
                    break
                losses.append(learner.step(some))
                if not (len(losses) % an_epoch and len(losses) % save_every):
                    _save(checkpoint, metrics, learner)
                told("training", len(losses), len(planned), losses[-1])
        if not losses:
            raise AnamnesisError("Interrupted before the first step: nothing was written.")
        if len(losses) < len(planned):
            _save(checkpoint, metrics, learner)
        metrics.finished = len(metrics.losses) == metrics.planned_steps
        metrics.after = figures("measuring after") if metrics.finished else None
        with _whole(out) as half:
            learner.save(half)
            (half / METRICS).write_text(metrics.model_dump_json(indent=2) + "\n")
    if metrics.finished:
        checkpoint.unlink(missing_ok=True)
    return metrics


def estimate(model: str, data: Path, settings: Settings) -> Estimate:
    """Return what a training takes, by a step on its longest batch, which must fit into memory; nothing is written."""
    lines = _lines(data)
    learner = Learner.load(model, seed=settings.seed, lora=settings.lora)
    with enough_memory(model):
        encoded = _encoded(learner, lines, settings)
        planned = batches(encoded["train"], settings)
        learner.begin(settings.learning_rate, len(planned))
        begun = time.monotonic()
        learner.step(max(planned, key=lambda some: len(some) * max(len(one.ids) for one in some)))
        seconds = (time.monotonic() - begun) * len(planned)
    return Estimate({side: len(encoded[side]) for side in SIDES}, len(planned), seconds, str(learner.device))


def batches(encoded: Sequence[Encoded], settings: Settings) -> list[list[Encoded]]:
    """Return the batches of all epochs in the order in which they are learnt, each epoch shuffled by the seed.

    Dialogues of a batch are of like length, so that little is padded: neighbours by length within a few batches' worth.
    """
    planned: list[list[Encoded]] = []
    size, pool = settings.batch_size, settings.batch_size * _ALIKE
    for epoch in range(settings.epochs):
        rng = random.Random(f"{settings.seed}:{epoch}")
        order = rng.sample(list(encoded), len(encoded))
        alike = [sorted(order[at : at + pool], key=lambda one: len(one.ids)) for at in range(0, len(order), pool)]
        learnt = [some[at : at + size] for some in alike for at in range(0, len(some), size)]
        planned += rng.sample(learnt, len(learnt))
    return planned


@contextmanager
def interrupted() -> Iterator[Stop]:
    """Yield what says whether Ctrl-C or SIGTERM came, which they do to a main thread only; a second one breaks off."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return

    def note(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _save(checkpoint: Path, metrics: Metrics, learner: Learner) -> None:
    half = checkpoint.with_name(f"{checkpoint.name}.half")
    try:
        learner.torch.save({"metrics": metrics.model_dump_json(), "state": learner.state()}, half)
        os.replace(half, checkpoint)
    finally:
        half.unlink(missing_ok=True)


def _resumed(checkpoint: Path, metrics: Metrics, learner: Learner) -> Metrics | None:
    """Prepare the learner, from a checkpoint of this training where there is one: then return its metrics."""
    learner.begin(metrics.learning_rate, metrics.planned_steps)
    if not checkpoint.exists():
        return None
    try:
        held = learner.torch.load(checkpoint, map_location="cpu", weights_only=True)
        saved = Metrics.model_validate_json(held["metrics"])
    except (OSError, RuntimeError, ValueError, KeyError, pickle.UnpicklingError) as error:
        raise AnamnesisError(f"The checkpoint {checkpoint} cannot be read: remove it to train anew.") from error
    if saved.model_dump(include=_SAME) != metrics.model_dump(include=_SAME):
        raise UsageError(
            f"{checkpoint} is of a training with another model, other settings, data or packages: go on with those, "
            "or remove it to train anew."
        )
    learner.restore(held["state"])
    return saved


def _lines(data: Path) -> dict[Side, list[ChatLine]]:
    lines = {side: read_side(data, side) for side in SIDES}
    check_apart(lines["train"], lines["test"])
    return lines


def _encoded(learner: Learner, lines: dict[Side, list[ChatLine]], settings: Settings) -> dict[Side, list[Encoded]]:
    length = min(settings.max_length, learner.most_tokens or settings.max_length)
    encoded = {side: encode_all(learner.chat, lines[side], length) for side in SIDES}
    for side in SIDES:
        if not encoded[side]:
            raise UsageError(
                f"No dialogue of {side}.jsonl has a word of the doctor within {length} tokens: raise --max-length."
            )
    return encoded


def _metrics(
    learner: Learner,
    model: str,
    data: Path,
    lines: dict[Side, list[ChatLine]],
    encoded: dict[Side, list[Encoded]],
    settings: Settings,
) -> Metrics:
    """Return what is to be said of a training before its first step."""
    return Metrics(
        model=model,
        settings=settings,
        learning_rate=settings.learning_rate,
        data={
            side: DataUsed(
                sha256=sha256((data / f"{side}.jsonl").read_bytes()),
                dialogues=len(encoded[side]),
                cut=sum(one.cut for one in encoded[side]),
                left_out=len(lines[side]) - len(encoded[side]),
            )
            for side in SIDES
        },
        device=str(learner.device),
        versions={n: library(n).__version__ for n in ("torch", "transformers")},
        template="tokenizer" if learner.chat.own_template else "plain",
        system_prompt="system" if learner.chat.takes_system else "user",
        planned_steps=len(batches(encoded["train"], settings)),
    )


def _check_free(out: Path, checkpoint: Path) -> None:
    unfinished = (
        checkpoint.exists()
        and (out / METRICS).is_file()
        and not Metrics.model_validate_json((out / METRICS).read_bytes()).finished
    )
    if out.exists() and not unfinished and not (out.is_dir() and not any(out.iterdir())):
        raise UsageError(f"{out} exists already: choose another folder for the model.")
    if not out.absolute().parent.is_dir():
        raise UsageError(f"There is no folder {out.absolute().parent}.")


@contextmanager
def _whole(out: Path) -> Iterator[Path]:
    """Yield a folder beside ``out`` that takes its place when all is written, and is gone when it is not."""
    half, old = (out.absolute().with_name(f".{out.name}.{what}") for what in ("half", "old"))
    shutil.rmtree(half, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)
    half.mkdir()
    try:
        yield half
        if out.is_dir():  # empty, or the model of a training that was stopped
            os.replace(out, old)
        os.replace(half, out)
    finally:
        shutil.rmtree(half, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
