"""Fine-tunes a small local model on a training set: low-rank adapters (LoRA) by trl's ``SFTTrainer``.

A row of the data set is a dialogue, and only the doctor's messages count in the loss. A row for each message, with its
history as the prompt, would have the same loss and seven times the tokens: on a CPU hours instead of minutes.

What the training changed is measured in conversations: ``report history`` compares two models.
"""

from __future__ import annotations

import hashlib
import math
import os
import shutil
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from core.errors import AnamnesisError, UsageError
from core.training.chat import SIDES, SplitName, check_apart, read_side, sha256

METRICS = "metrics.json"
ADAPTERS = "adapters"
"""Subfolder with the adapters alone, in the folder of the trained model."""
_SAVE_EVERY = 200
"""Most steps between two checkpoints; there is one at the end of each epoch."""
_LORA = {"r": 8, "lora_alpha": 16, "lora_dropout": 0.0, "target_modules": "all-linear", "task_type": "CAUSAL_LM"}
"""Adapters on every linear layer; dropout would cost a CPU a third of its time for adapters this small."""
_OF_ASSISTANT = "{% generation %}", "{% endgeneration %}"
"""What surrounds the words that the model learns, in a template for training."""
_PLAIN = (
    "{{ bos_token or '' }}{% for m in messages %}{{ m['role'] }}: {% if m['role'] == 'assistant' %}{% generation %}"
    "{{ m['content'] }}{{ eos_token or '' }}{{ '\n' }}{% endgeneration %}{% else %}{{ m['content'] }}{{ '\n' }}"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"
)
"""For a tokenizer without a template: a line for each message, after its role."""
_CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' }}{% if m['role'] == 'assistant' %}{% generation %}"
    "{{ m['content'] + '<|im_end|>' + '\n' }}{% endgeneration %}{% else %}{{ m['content'] + '<|im_end|>' + '\n' }}"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""The most usual template, which many models have in forms that trl does not know."""
_PROBE = [
    {"role": role, "content": f"{role} {n}"} for n, role in enumerate(("system", *("user", "assistant") * 2))
]  # fmt: skip


class FineTuneSettings(BaseModel):
    """Settings of a training."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    epochs: int = Field(default=4, ge=1)
    lr: float = Field(default=1e-3, gt=0)
    """At the 2e-4 that is usual for larger data sets, adapters learn next to nothing from fifty dialogues."""
    batch_size: int = Field(default=2, ge=1)
    max_length: int = Field(default=2048, ge=16)
    seed: int = 0


class Metrics(BaseModel):
    """The contents of metrics.json: what was trained, and the losses at equal distances.

    ``data`` is side → SHA-256 of its file. ``left_out`` dialogues have no word of the doctor within ``max_length``.
    """

    model: str
    settings: FineTuneSettings
    data: dict[SplitName, str]
    dialogues: int
    left_out: int
    takes_system: bool
    """Whether the model's chat template has a system role; if not, the patient's first message has the prompt."""
    device: str
    versions: dict[str, str]
    steps: int
    losses: list[float]


def fine_tune(model: str, data: Path, out: Path, settings: FineTuneSettings) -> Metrics:
    """Train a model (a folder or a Hugging Face name) on the train side of a training set and write it to ``out``.

    ``out`` is created when everything is written: the model with merged adapters, the adapters alone, metrics.json. A
    training that was stopped or killed resumes from its last checkpoint next to ``out``, if nothing about it changed.
    Raises ``UsageError`` and ``AnamnesisError``, in one sentence each, for missing or existing files, for a model whose
    template does not say what the model's own words are, and for too little memory.
    """
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise UsageError(f"{out} exists already: choose another folder for the model.")
    if not out.absolute().parent.is_dir():
        raise UsageError(f"There is no folder {out.absolute().parent}.")
    lines = {side: read_side(data, side) for side in SIDES}
    check_apart(lines["train"], lines["test"])
    hashes = {side: sha256((data / f"{side}.jsonl").read_bytes()) for side in SIDES}
    packages: dict[str, Any] = {name: import_module(name) for name in ("torch", "transformers", "trl", "peft")}
    versions = {name: package.__version__ for name, package in packages.items()}
    same = hashlib.sha256(f"{model} {settings.model_dump_json()} {hashes} {versions}".encode()).hexdigest()[:8]
    checkpoints = out.absolute().with_name(f".{out.name}.{same}")
    with _understandable(model), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learner, tokenizer = _loaded(model)
        own_template = tokenizer.chat_template
        takes_system = _prepare(tokenizer)
        dialogues = [_messages(line.dumped(), takes_system) for line in lines["train"]]
        trainer = _trainer(learner, tokenizer, dialogues, settings, checkpoints)
        if not len(trainer.train_dataset):
            raise UsageError(
                f"No dialogue of train.jsonl has a word of the doctor within {trainer.args.max_length} tokens: raise "
                "--max-length."
            )
        # the state is the last file of a checkpoint: without it, the checkpoint is incomplete
        states = sorted(checkpoints.glob("checkpoint-*/trainer_state.json"), key=lambda path: path.stat().st_mtime)
        trainer.train(resume_from_checkpoint=str(states[-1].parent) if states else None)
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    if not all(map(math.isfinite, losses)):
        shutil.rmtree(checkpoints)
        raise AnamnesisError("The loss is no number any more: use a lower --lr.")
    metrics = Metrics(
        model=model,
        settings=settings,
        data=hashes,
        dialogues=len(dialogues),
        left_out=len(dialogues) - len(trainer.train_dataset),
        takes_system=takes_system,
        device=str(trainer.args.device),
        versions=versions,
        steps=trainer.state.global_step,
        losses=losses,
    )
    tokenizer.chat_template = own_template or _without_marks(_PLAIN)
    half = checkpoints / "model"
    _save(trainer.model, tokenizer, half)
    (half / METRICS).write_text(metrics.model_dump_json(indent=2) + "\n")
    os.replace(half, out)
    shutil.rmtree(checkpoints)
    return metrics


def _loaded(name: str) -> tuple[Any, Any]:
    """Load model and tokenizer of a folder or of a Hugging Face name."""
    torch, transformers = import_module("torch"), import_module("transformers")
    # a Hugging Face name has at most one slash and starts with a letter: any other name must be a folder
    if (name.startswith((".", "/", "~")) or name.count("/") > 1) and not Path(name).is_dir():
        raise UsageError(f"There is no folder {name}: name the folder of a model or its Hugging Face name.")
    half = torch.cuda.is_available()  # adapters are trained in full precision on weights in half precision
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(name)
        model = transformers.AutoModelForCausalLM.from_pretrained(name, dtype=torch.bfloat16 if half else torch.float32)
    except (OSError, ValueError, KeyError) as error:
        first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise AnamnesisError(
            f"The model {name} cannot be loaded ({first.rstrip('.:')}): check its name, and that it is a causal "
            "language model with a tokenizer; without a network it must lie in a folder here or in the Hugging Face "
            "cache."
        ) from error
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.convert_ids_to_tokens(0)
    return model, tokenizer


def _prepare(tokenizer: Any) -> bool:
    """Give a tokenizer a template that marks the assistant's words, unless trl has one; say if it has a system role."""
    jinja2 = import_module("jinja2")

    def rendered(messages: Sequence[dict[str, str]], template: str | None = None) -> str:
        return str(tokenizer.apply_chat_template(messages, tokenize=False, chat_template=template))

    if not tokenizer.chat_template:
        tokenizer.chat_template = _PLAIN
    elif _OF_ASSISTANT[0] not in tokenizer.chat_template:
        try:
            if rendered(_PROBE) == rendered(_PROBE, _CHATML):
                tokenizer.chat_template = _CHATML
        except jinja2.TemplateError:
            pass
    try:
        return _PROBE[0]["content"] in rendered(_PROBE)
    except jinja2.TemplateError:
        return False


def _messages(messages: list[dict[str, str]], takes_system: bool) -> list[dict[str, str]]:
    """Return a dialogue, without a system role with the system prompt at the beginning of the patient's message."""
    if takes_system:
        return messages
    system, first, *rest = messages
    return [{"role": "user", "content": f"{system['content']}\n\n{first['content']}"}, *rest]


def _without_marks(template: str) -> str:
    """Return a template for training as servers can read it."""
    for mark in _OF_ASSISTANT:
        template = template.replace(mark, "")
    return template


def _trainer(
    model: Any, tokenizer: Any, dialogues: list[list[dict[str, str]]], settings: FineTuneSettings, folder: Path
) -> Any:
    """Return trl's trainer of new adapters on a model.

    The optimizer is AdamW without weight decay; the learning rate rises in the first tenth of the steps and then falls
    linearly to zero.
    """
    # without this, trl reports each training to Hugging Face
    constants: Any = import_module("huggingface_hub.constants")
    constants.HF_HUB_DISABLE_TELEMETRY = True
    trl, datasets, peft = import_module("trl"), import_module("datasets"), import_module("peft")
    cuda = import_module("torch").cuda.is_available()
    an_epoch = math.ceil(len(dialogues) / settings.batch_size)
    context = getattr(model.config, "max_position_embeddings", None) or settings.max_length
    config = trl.SFTConfig(
        output_dir=str(folder),
        num_train_epochs=settings.epochs,
        learning_rate=settings.lr,
        per_device_train_batch_size=settings.batch_size,
        seed=settings.seed,
        max_length=min(settings.max_length, context),
        assistant_only_loss=True,
        lr_scheduler_type="linear",
        warmup_steps=0.1,
        bf16=cuda,
        gradient_checkpointing=False,
        dataloader_pin_memory=cuda,
        logging_steps=max(1, settings.epochs * an_epoch // 50),
        logging_nan_inf_filter=False,
        save_steps=min(an_epoch, _SAVE_EVERY),
        save_total_limit=1,
        report_to="none",
    )
    config._n_gpu = min(config.n_gpu, 1)  # a small model needs one GPU, and trl refuses several in one process
    return trl.SFTTrainer(
        model=model,
        args=config,
        train_dataset=datasets.Dataset.from_list([{"messages": messages} for messages in dialogues]),
        processing_class=tokenizer,
        peft_config=peft.LoraConfig(**_LORA),
    )


def _save(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write the model with merged adapters and its tokenizer, and the adapters alone in bfloat16."""
    shutil.rmtree(folder, ignore_errors=True)
    adapters, settings = folder / ADAPTERS, model.peft_config["default"]
    adapters.mkdir(parents=True)
    weights = import_module("peft").get_peft_model_state_dict(model, save_embedding_layers=False)
    bfloat16 = import_module("torch").bfloat16
    halves = {name: weight.to(bfloat16).contiguous() for name, weight in weights.items()}
    import_module("safetensors.torch").save_file(halves, adapters / "adapter_model.safetensors")
    # remove a path of this machine and the random order of a set, for reproducible files
    settings.base_model_name_or_path = Path(settings.base_model_name_or_path).name
    settings.target_modules = sorted(settings.target_modules)
    settings.save_pretrained(adapters)
    model.merge_and_unload().save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@contextmanager
def _understandable(model: str) -> Iterator[None]:
    """Turn a lack of memory, and a template that trl cannot train with, into an ``AnamnesisError``."""
    try:
        yield
    except import_module("torch").OutOfMemoryError as error:
        raise AnamnesisError(
            f"The accelerator's memory is too small to train {model} like this: use a smaller --batch-size or "
            "--max-length, or a smaller model."
        ) from error
    except ValueError as error:
        if "template" not in str(error):
            raise
        raise AnamnesisError(
            f"The chat template of {model} does not say which words are the model's own, and trl has no form of it "
            "that does: use a model with another template."
        ) from error
