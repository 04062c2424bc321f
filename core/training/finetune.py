"""Fine-tunes a small local model on a training set with trl, and measures it before and after.

A row of the data set is a dialogue, tokenised here with labels on each of the doctor's messages (``encoding``): what
the model reads before a message is its history, and only the message counts in the loss. A row for each message, its
history repeated as the prompt, has the same loss and seven times the tokens: on a CPU hours instead of minutes.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from core.callbacks import Stop
from core.errors import AnamnesisError, UsageError
from core.text.rouge import rouge_1, tokens
from core.training.chat import SIDES, ChatLine, Side, check_apart, read_side, sha256
from core.training.encoding import MASKED, Encoded
from core.training.learner import Learner, library

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
    trainer: Any,
    encoded: Sequence[Encoded],
    lines: Sequence[ChatLine],
    on_progress: Callable[[int, int], None] = lambda done, planned: None,
) -> Evaluation:
    """Return the figures: loss on ``encoded``, questions on ``lines``."""
    torch, device, batch_size = library("torch"), trainer.args.device, trainer.args.train_batch_size
    planned = len(encoded) + len(lines)
    learner.model.eval()
    loss = count = 0.0
    # in the precision of the training, which sets it only once it has begun
    with torch.no_grad(), torch.autocast(device.type, dtype=torch.bfloat16, enabled=trainer.args.bf16):
        for start in range(0, len(encoded), batch_size):
            on_progress(start, planned)
            rows = [dialogue.row for dialogue in encoded[start : start + batch_size]]
            batch = {name: tensor.to(device) for name, tensor in trainer.data_collator(rows).items()}
            predicted = int((batch["labels"][:, 1:] != MASKED).sum())
            loss += float(trainer.compute_loss(learner.model, batch)) * predicted
            count += predicted
    recalls = []
    for number, line in enumerate(lines):
        on_progress(len(encoded) + number, planned)
        recalls.append(key_recall(line.keys, questions(learner, line)))
    return Evaluation(
        loss=loss / count,
        perplexity=math.exp(min(loss / count, 700.0)),
        tokens=int(count),
        key_recall=sum(recalls) / len(recalls) if recalls else None,
        asked=len(recalls),
    )


def questions(learner: Learner, line: ChatLine) -> list[str]:
    """Return what the model says in place of each of the doctor's questions, after the golden ones before it."""
    messages = line.dumped()
    places = [n for n, message in enumerate(messages[:-1]) if message["role"] == "assistant"]
    return learner.replies([messages[:n] for n in places], QUESTION_TOKENS)


def key_recall(keys: Sequence[str], asked: Sequence[str]) -> float:
    """Return the ROUGE-1 recall of keys in questions: the doctor's recall (Liao et al.)."""
    return rouge_1(tokens(" ".join(keys)), tokens(" ".join(asked))).recall


METRICS = "metrics.json"
SAVE_EVERY = 200
"""Steps after which a checkpoint is written, in addition to the end of every epoch."""
_TRAINER_STATE = "trainer_state.json"
"""What the trainer writes last into a checkpoint."""
_LORA = {"r": 8, "lora_alpha": 16, "lora_dropout": 0.0, "target_modules": "all-linear", "task_type": "CAUSAL_LM"}
"""Low-rank adapters on every linear layer; dropout would cost a CPU a third of its time for adapters this small."""
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
    the step that is running, and what was learnt is kept. A checkpoint next to ``out`` is written every ``save_every``
    steps and at each epoch's end: a training that was stopped or killed goes on from there when it is started again,
    and ends as if nothing had been. On a CPU the same settings and seed give the same model. Raises ``UsageError`` and
    ``AnamnesisError``, in one sentence each, for whatever is missing, in the way or too big.
    """
    checkpoints = out.absolute().with_name(f".{out.name}.checkpoint")
    _check_free(out, checkpoints)
    lines = _lines(data)
    told("loading", 0, 1, None)
    learner = _load(model, settings)
    encoded = _encoded(learner, lines, settings)
    asked = lines["test"][: settings.generate]
    try:
        with _training(model):
            trainer = _trainer(learner, encoded["train"], settings, checkpoints)
            metrics = _metrics(trainer, learner, model, data, lines, encoded, settings)

            def figures(what: str) -> Evaluation:
                return evaluate(
                    learner, trainer, encoded["test"], asked, lambda done, planned: told(what, done, planned, None)
                )

            checkpoint = _checkpoint(checkpoints, metrics)
            if checkpoint is None:
                metrics.before = figures("measuring before")
                (checkpoints / METRICS).write_text(metrics.model_dump_json())
            with interrupted() as stop:
                metrics.losses = _train(trainer, metrics.planned_steps, checkpoint, told, stop, save_every)
            metrics.finished = len(metrics.losses) == metrics.planned_steps
            metrics.after = figures("measuring after") if metrics.finished else None
        _write(learner, metrics, out, checkpoints / "model")
        if metrics.finished:
            shutil.rmtree(checkpoints)
    finally:
        if _newest(checkpoints) is None:
            shutil.rmtree(checkpoints, ignore_errors=True)
    return metrics


def estimate(model: str, data: Path, settings: Settings) -> Estimate:
    """Return what a training takes, by a step on its longest batch, which must fit into memory; nothing is written."""
    lines = _lines(data)
    learner = _load(model, settings)
    encoded = _encoded(learner, lines, settings)
    longest = sorted(encoded["train"], key=lambda dialogue: len(dialogue.ids))[-settings.batch_size :]
    with _training(model), tempfile.TemporaryDirectory() as folder:
        trainer = _trainer(learner, longest, settings.model_copy(update={"epochs": 1}), Path(folder))
        begun = time.monotonic()
        trainer.train()
        steps = _steps(encoded["train"], settings)
        seconds = (time.monotonic() - begun) * steps
    return Estimate({side: len(encoded[side]) for side in SIDES}, steps, seconds, str(trainer.args.device))


def _train(trainer: Any, planned: int, checkpoint: Path | None, told: Told, stop: Stop, save_every: int) -> list[float]:
    """Take the steps that are left and return the losses of all, those before ``checkpoint`` among them."""
    epoch = planned // int(trainer.args.num_train_epochs)

    class Watch(library("transformers").TrainerCallback):  # type: ignore[misc]
        begun = False

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.begun = True
            losses = _losses(state)
            told("training", state.global_step, planned, losses[-1] if losses else None)

        def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float], **_: Any) -> None:
            if "loss" not in logs:  # said of the whole training, at its end
                return
            step, loss = state.global_step, logs["loss"]
            if not math.isfinite(loss):
                raise AnamnesisError(f"In step {step} the loss is no number any more: use a lower --lr.")
            told("training", step, planned, loss)
            control.should_training_stop = control.should_training_stop or stop()
            control.should_save = control.should_training_stop or not (step % epoch and step % save_every)

    watch = Watch()
    trainer.add_callback(watch)
    try:
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    except Exception as error:
        if checkpoint is None or watch.begun or isinstance(error, library("torch").OutOfMemoryError):
            raise
        raise _unreadable(checkpoint.parent) from error
    return _losses(trainer.state)


def _losses(state: Any) -> list[float]:
    return [entry["loss"] for entry in state.log_history if "loss" in entry]


def _load(model: str, settings: Settings) -> Learner:
    # adapters are small enough to learn in full precision on half-sized weights; the weights themselves are not
    return Learner.load(model, half=settings.lora and library("torch").cuda.is_available())


def _trainer(learner: Learner, train: Sequence[Encoded], settings: Settings, folder: Path) -> Any:
    """Return trl's trainer; the learner's model becomes the trainer's, with new adapters around it for ``lora``.

    The optimizer is AdamW without weight decay; the learning rate rises in the first tenth of the steps, and falls to
    zero in a straight line. Checkpoints are written when a callback says so.
    """
    # trl reports each training to Hugging Face, unless this is set
    library("huggingface_hub.constants").HF_HUB_DISABLE_TELEMETRY = True
    trl, transformers, datasets = library("trl"), library("transformers"), library("datasets")
    cuda = library("torch").cuda.is_available()
    config = trl.SFTConfig(
        output_dir=str(folder),
        num_train_epochs=settings.epochs,
        learning_rate=settings.learning_rate,
        per_device_train_batch_size=settings.batch_size,
        seed=settings.seed,
        max_length=None,  # the dialogues are cut already
        lr_scheduler_type="linear",
        warmup_steps=0.1,
        bf16=cuda,
        gradient_checkpointing=False,
        dataloader_pin_memory=cuda,
        logging_steps=1,
        logging_nan_inf_filter=False,
        save_strategy="no",
        save_total_limit=1,
        report_to="none",
        disable_tqdm=True,
    )
    config._n_gpu = min(config.n_gpu, 1)  # a small model needs one GPU, and trl refuses several in one process
    trainer = trl.SFTTrainer(
        model=learner.model,
        args=config,
        train_dataset=datasets.Dataset.from_list([dialogue.row for dialogue in train]),
        processing_class=learner.chat.tokenizer,
        peft_config=library("peft").LoraConfig(**_LORA) if settings.lora else None,
    )
    trainer.remove_callback(transformers.PrinterCallback)
    learner.model = trainer.model
    return trainer


def _write(learner: Learner, metrics: Metrics, out: Path, half: Path) -> None:
    """Write model and metrics to ``half``, which takes the place of ``out`` when it is whole."""
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir()
    learner.save(half)
    (half / METRICS).write_text(metrics.model_dump_json(indent=2) + "\n")
    if out.is_dir():  # empty, or the model of a training that was stopped
        shutil.rmtree(out)
    os.replace(half, out)


def _steps(train: Sequence[Encoded], settings: Settings) -> int:
    return settings.epochs * math.ceil(len(train) / settings.batch_size)


@contextmanager
def interrupted() -> Iterator[Stop]:
    """Yield what says whether Ctrl-C or SIGTERM came; a second one breaks off. Only for a main thread."""
    asked = threading.Event()

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


@contextmanager
def _training(model: str) -> Iterator[None]:
    """Say in one sentence that memory is too small; leave out what one Hugging Face package warns the next of."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except library("torch").OutOfMemoryError as error:
        raise AnamnesisError(
            f"The accelerator's memory is too small to train {model} like this: use a smaller --batch-size or "
            "--max-length, --lora, or a smaller model."
        ) from error


def _newest(checkpoints: Path) -> Path | None:
    """Return the folder of the newest checkpoint that was written to its end."""
    whole = (path.parent for path in checkpoints.glob(f"checkpoint-*/{_TRAINER_STATE}"))
    return max(whole, key=lambda folder: int(folder.name.rpartition("-")[2]), default=None)


def _checkpoint(checkpoints: Path, metrics: Metrics) -> Path | None:
    """Return the checkpoint that this training goes on from, if there is one, and put what it measured into metrics."""
    newest = _newest(checkpoints)
    if newest is None:
        return None
    try:
        saved = Metrics.model_validate_json((checkpoints / METRICS).read_bytes())
    except (OSError, ValueError) as error:
        raise _unreadable(checkpoints) from error
    if saved.model_dump(include=_SAME) != metrics.model_dump(include=_SAME):
        raise UsageError(
            f"{checkpoints} is of a training with another model, other settings, data or packages: go on with those, "
            "or remove it to train again."
        )
    metrics.before = saved.before
    return newest


def _unreadable(checkpoints: Path) -> AnamnesisError:
    return AnamnesisError(
        f"The checkpoint {checkpoints} cannot be read, or is of an older version: remove it to train again."
    )


def _lines(data: Path) -> dict[Side, list[ChatLine]]:
    lines = {side: read_side(data, side) for side in SIDES}
    check_apart(lines["train"], lines["test"])
    return lines


def _encoded(learner: Learner, lines: dict[Side, list[ChatLine]], settings: Settings) -> dict[Side, list[Encoded]]:
    length = min(settings.max_length, learner.context_length or settings.max_length)
    encoded: dict[Side, list[Encoded]] = {}
    for side in SIDES:
        dialogues = [learner.chat.encode(line.dumped(), length) for line in lines[side]]
        encoded[side] = [dialogue for dialogue in dialogues if dialogue.predicted]
        if not encoded[side]:
            raise UsageError(
                f"No dialogue of {side}.jsonl has a word of the doctor within {length} tokens: raise --max-length."
            )
    return encoded


def _metrics(
    trainer: Any,
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
                cut=sum(dialogue.cut for dialogue in encoded[side]),
                left_out=len(lines[side]) - len(encoded[side]),
            )
            for side in SIDES
        },
        device=str(trainer.args.device),
        versions={n: library(n).__version__ for n in ("torch", "transformers", "trl")},
        template="tokenizer" if learner.chat.own_template else "plain",
        system_prompt="system" if learner.chat.takes_system else "user",
        planned_steps=_steps(encoded["train"], settings),
    )


def _check_free(out: Path, checkpoints: Path) -> None:
    if checkpoints.is_file():  # as version 0.4 wrote it
        raise _unreadable(checkpoints)
    unfinished = (
        checkpoints.exists()
        and (out / METRICS).is_file()
        and not Metrics.model_validate_json((out / METRICS).read_bytes()).finished
    )
    if out.exists() and not unfinished and not (out.is_dir() and not any(out.iterdir())):
        raise UsageError(f"{out} exists already: choose another folder for the model.")
    if not out.absolute().parent.is_dir():
        raise UsageError(f"There is no folder {out.absolute().parent}.")
