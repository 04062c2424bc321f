"""Fine-tunes a small local model on a training set with trl, and measures it before and after.

A row of the data set is a dialogue, tokenised here with labels on each of the doctor's messages (``encoding``), so that
only these messages count in the loss. A row for each message, with its history as the prompt, would have the same loss
and seven times the tokens: on a CPU hours instead of minutes.
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

from core.callbacks import StopCallback
from core.errors import AnamnesisError, UsageError
from core.text.rouge import rouge_1, tokens
from core.training.chat import SIDES, ChatLine, SplitName, check_apart, read_side, sha256
from core.training.encoding import MASKED, Encoded
from core.training.learner import Learner, library

QUESTION_TOKENS = 40
"""Maximum tokens of a generated question."""


class Evaluation(BaseModel):
    """Figures of one model on the test side.

    ``loss``: mean cross entropy of the doctor's words in nats per token, over all ``tokens`` of all dialogues;
    ``perplexity``: its exponential. ``key_recall``: mean over ``asked`` dialogues of the ROUGE-1 recall (stemmed) of a
    case's keys in the model's questions, each generated after the golden dialogue up to that point (Liao et al.,
    doctor's recall); ``None`` if no question was generated.
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
    """Return the figures: the loss on ``encoded``, and the recall of questions on ``lines``."""
    torch, device, batch_size = library("torch"), trainer.args.device, trainer.args.train_batch_size
    planned = len(encoded) + len(lines)
    learner.model.eval()
    loss = count = 0.0
    # use the precision of the training, which the trainer sets only when it begins
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
    """Return the model's replacement for each of the doctor's questions, after the golden dialogue before it."""
    messages = line.dumped()
    places = [n for n, message in enumerate(messages[:-1]) if message["role"] == "assistant"]
    return learner.replies([messages[:n] for n in places], QUESTION_TOKENS)


def key_recall(keys: Sequence[str], questions: Sequence[str]) -> float:
    """Return the ROUGE-1 recall of keys in questions, 0 to 1: the doctor's recall (Liao et al.)."""
    return rouge_1(tokens(" ".join(keys)), tokens(" ".join(questions))).recall


METRICS = "metrics.json"
SAVE_EVERY = 200
"""Steps between two checkpoints, in addition to the end of every epoch."""
_TRAINER_STATE = "trainer_state.json"
"""The last file that the trainer writes into a checkpoint."""
_LORA = {"r": 8, "lora_alpha": 16, "lora_dropout": 0.0, "target_modules": "all-linear", "task_type": "CAUSAL_LM"}
"""Low-rank adapters on every linear layer; dropout would cost a CPU a third of its time for adapters this small."""
LR = {False: 2e-5, True: 1e-3}
"""LoRA? → default learning rate. At the 2e-4 that is usual for larger data sets, adapters learn next to nothing from
fifty dialogues."""


class FineTuneSettings(BaseModel):
    """Settings of a training. ``lr=None``: the default rate; ``generate``: test dialogues with generated questions."""

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
        return self.lr if self.lr is not None else LR[self.lora]


class DataUsed(BaseModel):
    """One side of the data: SHA-256 of the file, dialogues, and those cut or left out because of ``max_length``."""

    sha256: str
    dialogues: int
    cut: int
    left_out: int


class Metrics(BaseModel):
    """The contents of metrics.json. ``finished`` is false after a stop; ``after`` is then ``None``.

    ``losses`` are the training losses of the steps so far, of ``planned_steps``; ``template``: the tokenizer's chat
    template, or the plain one of this project.
    """

    model: str
    settings: FineTuneSettings
    learning_rate: float
    data: dict[SplitName, DataUsed]
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
"""Fields that are equal in all metrics of the same training, whatever its progress."""


TrainingProgress = Callable[[str, int, int, float | None], None]
"""Called with the present step, the amount done, the amount planned, and the last loss."""


@dataclass(frozen=True)
class TrainingEstimate:
    """The size of a training: dialogues of each side, steps, and seconds.

    ``seconds`` are extrapolated from one step on the longest batch, without the evaluation before and after.
    """

    dialogues: dict[SplitName, int]
    steps: int
    seconds: float
    device: str


def fine_tune(
    model: str,
    data: Path,
    out: Path,
    settings: FineTuneSettings,
    on_progress: TrainingProgress = lambda *_: None,
    *,
    save_every: int = SAVE_EVERY,
) -> Metrics:
    """Train a model (a folder or a Hugging Face name) on the train side of a training set and write it to ``out``.

    ``out`` is created when everything is written, including metrics.json. Ctrl-C or SIGTERM ends the training after
    the current step, and the model so far is written. A checkpoint next to ``out`` is written every ``save_every``
    steps and at the end of each epoch; a stopped or killed training resumes from it with the same result as without
    the stop. On a CPU the same settings and seed give the same model. Raises ``UsageError`` and ``AnamnesisError``, in
    one sentence each, for missing or existing files and for too little memory.
    """
    checkpoints = out.absolute().with_name(f".{out.name}.checkpoint")
    _check_free(out, checkpoints)
    lines = _lines(data)
    on_progress("loading", 0, 1, None)
    learner = _load(model, settings)
    encoded = _encoded(learner, lines, settings)
    generated_lines = lines["test"][: settings.generate]
    try:
        with _training(model):
            trainer = _trainer(learner, encoded["train"], settings, checkpoints)
            metrics = _metrics(trainer, learner, model, data, lines, encoded, settings)

            def figures(what: str) -> Evaluation:
                return evaluate(
                    learner,
                    trainer,
                    encoded["test"],
                    generated_lines,
                    lambda done, planned: on_progress(what, done, planned, None),
                )

            checkpoint = _checkpoint(checkpoints, metrics)
            if checkpoint is None:
                metrics.before = figures("measuring before")
                (checkpoints / METRICS).write_text(metrics.model_dump_json())
            with interrupted() as stop:
                metrics.losses = _train(trainer, metrics.planned_steps, checkpoint, on_progress, stop, save_every)
            metrics.finished = len(metrics.losses) == metrics.planned_steps
            metrics.after = figures("measuring after") if metrics.finished else None
        _write(learner, metrics, out, checkpoints / "model")
        if metrics.finished:
            shutil.rmtree(checkpoints)
    finally:
        if _newest(checkpoints) is None:
            shutil.rmtree(checkpoints, ignore_errors=True)
    return metrics


def estimate(model: str, data: Path, settings: FineTuneSettings) -> TrainingEstimate:
    """Estimate a training by one step on its longest batch, which must fit into memory; nothing is written."""
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
    return TrainingEstimate({side: len(encoded[side]) for side in SIDES}, steps, seconds, str(trainer.args.device))


def _train(
    trainer: Any,
    planned: int,
    checkpoint: Path | None,
    on_progress: TrainingProgress,
    stop: StopCallback,
    save_every: int,
) -> list[float]:
    """Take the remaining steps and return the losses of all steps, including those before ``checkpoint``."""
    epoch = planned // int(trainer.args.num_train_epochs)

    class Watch(library("transformers").TrainerCallback):  # type: ignore[misc]
        begun = False

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.begun = True
            losses = _losses(state)
            on_progress("training", state.global_step, planned, losses[-1] if losses else None)

        def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float], **_: Any) -> None:
            if "loss" not in logs:  # the summary at the end of the training
                return
            step, loss = state.global_step, logs["loss"]
            if not math.isfinite(loss):
                raise AnamnesisError(f"In step {step} the loss is no number any more: use a lower --lr.")
            on_progress("training", step, planned, loss)
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


def _load(model: str, settings: FineTuneSettings) -> Learner:
    # adapters are trained in full precision on weights in half precision; the weights themselves need full precision
    return Learner.load(model, half=settings.lora and library("torch").cuda.is_available())


def _trainer(learner: Learner, train: Sequence[Encoded], settings: FineTuneSettings, folder: Path) -> Any:
    """Return trl's trainer; the learner's model becomes the trainer's, with new adapters for ``lora``.

    The optimizer is AdamW without weight decay; the learning rate rises in the first tenth of the steps and then falls
    linearly to zero. A callback decides when checkpoints are written.
    """
    # without this, trl reports each training to Hugging Face
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
    """Write model and metrics to ``half``, which replaces ``out`` when it is complete."""
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir()
    learner.save(half)
    (half / METRICS).write_text(metrics.model_dump_json(indent=2) + "\n")
    if out.is_dir():  # it is empty, or has the model of a stopped training
        shutil.rmtree(out)
    os.replace(half, out)


def _steps(train: Sequence[Encoded], settings: FineTuneSettings) -> int:
    return settings.epochs * math.ceil(len(train) / settings.batch_size)


@contextmanager
def interrupted() -> Iterator[StopCallback]:
    """Yield a function that says whether Ctrl-C or SIGTERM came; a second signal interrupts. Main thread only."""
    stop_requested = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        if stop_requested.is_set():
            raise KeyboardInterrupt
        stop_requested.set()

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop_requested.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _training(model: str) -> Iterator[None]:
    """Turn a lack of memory into an ``AnamnesisError``, and silence the warnings of the Hugging Face packages."""
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
    complete = (path.parent for path in checkpoints.glob(f"checkpoint-*/{_TRAINER_STATE}"))
    return max(complete, key=lambda folder: int(folder.name.rpartition("-")[2]), default=None)


def _checkpoint(checkpoints: Path, metrics: Metrics) -> Path | None:
    """Return the checkpoint of this training, or ``None``, and copy its first evaluation into ``metrics``."""
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


def _lines(data: Path) -> dict[SplitName, list[ChatLine]]:
    lines = {side: read_side(data, side) for side in SIDES}
    check_apart(lines["train"], lines["test"])
    return lines


def _encoded(
    learner: Learner, lines: dict[SplitName, list[ChatLine]], settings: FineTuneSettings
) -> dict[SplitName, list[Encoded]]:
    length = min(settings.max_length, learner.context_length or settings.max_length)
    encoded: dict[SplitName, list[Encoded]] = {}
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
    lines: dict[SplitName, list[ChatLine]],
    encoded: dict[SplitName, list[Encoded]],
    settings: FineTuneSettings,
) -> Metrics:
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
