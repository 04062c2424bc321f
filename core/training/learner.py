"""A causal language model ready to learn: loaded once, trained step by step, saved whole.

torch, transformers and peft are imported with the first use, and by name: type checkers need not read them.
"""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from core.errors import AnamnesisError, UsageError
from core.training.encoding import MASKED, ChatFormat, Encoded, batch

ADAPTERS = "adapters"
"""The folder of the adapters in the folder of a model that was trained by adapters."""
_LORA = {"r": 8, "lora_alpha": 16, "lora_dropout": 0.0, "target_modules": "all-linear", "task_type": "CAUSAL_LM"}
"""Low-rank adapters on every linear layer; dropout would cost a CPU a third of its time for adapters this small."""
_MOST_NORM = 1.0
_SIDE_BY_SIDE = 8
"""Messages that are generated together: on a CPU eight take hardly longer than one."""
_WARM_UP = 0.1
"""Share of the steps in which the learning rate rises; from there it falls to zero in a straight line."""


class Learner:
    """A model with its tokenizer on a device."""

    def __init__(self, model: Any, chat: ChatFormat, device: Any) -> None:
        self.model, self.chat, self.device = model, chat, device
        self.torch = library("torch")
        self._weights: dict[str, Any] = {}
        self._optimizer: Any = None
        self._rate: Any = None
        whole = model.get_base_model() if hasattr(model, "get_base_model") else model
        self._trims = "logits_to_keep" in inspect.signature(whole.forward).parameters
        self.pad = next(id_ for id_ in (chat.tokenizer.pad_token_id, chat.tokenizer.eos_token_id, 0) if id_ is not None)

    @classmethod
    def load(cls, name: str, *, seed: int = 0, lora: bool = False) -> Learner:
        """Load a folder or a Hugging Face name, with new adapters where ``lora`` is wanted.

        Raises ``UsageError`` where there is no such folder or no peft, ``AnamnesisError`` where it cannot be loaded.
        """
        torch, transformers = library("torch"), library("transformers")
        peft = library("peft") if lora else None
        # whether a name can only mean a folder: Hugging Face names have one slash at most and start with a letter
        if (name.startswith((".", "/", "~")) or name.count("/") > 1) and not Path(name).is_dir():
            raise UsageError(f"There is no folder {name}: name the folder of a model or its Hugging Face name.")
        torch.manual_seed(seed)
        device = torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
        # adapters are small enough to learn in full precision on half-sized weights; the weights themselves are not
        kind = torch.bfloat16 if lora and device.type == "cuda" else torch.float32
        transformers.utils.logging.disable_progress_bar()
        with enough_memory(name), _loadable(name):
            tokenizer = transformers.AutoTokenizer.from_pretrained(name)
            model = transformers.AutoModelForCausalLM.from_pretrained(name, dtype=kind).to(device)
        if peft is not None:
            with warnings.catch_warnings():
                # peft asks transformers by a name that is to go: nothing that a user of either could change
                warnings.simplefilter("ignore", FutureWarning)
                model = peft.get_peft_model(model, peft.LoraConfig(**_LORA))
        return cls(model, ChatFormat(tokenizer), device)

    @property
    def most_tokens(self) -> int | None:
        """How many tokens the model can read, where its configuration says so."""
        most = getattr(self.model.config, "max_position_embeddings", None)
        return int(most) if most else None

    def loss(self, encoded: Sequence[Encoded]) -> Any:
        """Return the mean cross entropy (nats a token) of the doctor's words in some dialogues, as a tensor."""
        kind, rows = self.device.type, batch(encoded, self.pad, self.torch, self.device)
        labels = rows.pop("labels")[:, 1:]
        # where a model can be told, it weighs its whole vocabulary only at places that some doctor speaks at
        kept = (labels != MASKED).any(0).nonzero().flatten()
        trimmed = {"logits_to_keep": kept} if self._trims else {}
        with self.torch.autocast(kind, dtype=self.torch.bfloat16, enabled=kind == "cuda"):
            logits = self.model(**rows, **trimmed).logits
            logits = logits if trimmed else logits[:, kept]
            return self.torch.nn.functional.cross_entropy(
                logits.flatten(0, 1).float(), labels[:, kept].flatten(), ignore_index=MASKED
            )

    def begin(self, lr: float, steps: int) -> None:
        """Prepare so many steps of AdamW, of which ``step`` takes one."""
        self._weights = {name: one for name, one in self.model.named_parameters() if one.requires_grad}
        self._optimizer = self.torch.optim.AdamW(self._weights.values(), lr=lr, weight_decay=0.0)
        warm = max(1, round(_WARM_UP * steps))
        self._rate = self.torch.optim.lr_scheduler.LambdaLR(
            self._optimizer, lambda step: min((step + 1) / warm, max(0, steps - step) / max(1, steps - warm))
        )

    def step(self, some: Sequence[Encoded]) -> float:
        """Learn from some dialogues and return their loss; raise ``AnamnesisError`` where that is no number."""
        self.model.train()
        loss = self.loss(some)
        step = self._rate.last_epoch + 1
        value = float(loss.detach())
        if value != value or value == float("inf"):
            raise AnamnesisError(f"In step {step} the loss is no number any more: use a lower --lr.")
        loss.backward()
        self.torch.nn.utils.clip_grad_norm_(self._weights.values(), _MOST_NORM)
        self._optimizer.step()
        self._rate.step()
        self._optimizer.zero_grad()
        return value

    def state(self) -> dict[str, Any]:
        """Return all that the next steps depend on: weights that learn, optimizer, rate, and the state of chance."""
        chance = [source.get_rng_state() for source in self._sources_of_chance()]
        steps = {"optimizer": self._optimizer.state_dict(), "rate": self._rate.state_dict()}
        return {"weights": {name: one.detach() for name, one in self._weights.items()}, "chance": chance, **steps}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state of the same training, after ``begin``."""
        with self.torch.no_grad():
            for name, one in self._weights.items():
                one.copy_(state["weights"][name])
        self._optimizer.load_state_dict(state["optimizer"])
        self._rate.load_state_dict(state["rate"])
        for source, held in zip(self._sources_of_chance(), state["chance"], strict=True):
            source.set_rng_state(held)

    def _sources_of_chance(self) -> list[Any]:
        device = self.device.type
        return [self.torch, *([] if device == "cpu" else [self.torch.get_device_module(device)])]

    def replies(self, asked: Sequence[Sequence[dict[str, str]]], max_tokens: int) -> list[str]:
        """Return the model's likeliest next message to each, decoded greedily, up to the end of its first line."""
        self.model.eval()
        said: list[str] = []
        for start in range(0, len(asked), _SIDE_BY_SIDE):
            prompts = [self.chat.prompt_ids(messages) for messages in asked[start : start + _SIDE_BY_SIDE]]
            longest = max(map(len, prompts))
            rows = {
                "input_ids": [[*[self.pad] * (longest - len(ids)), *ids] for ids in prompts],
                "attention_mask": [[0] * (longest - len(ids)) + [1] * len(ids) for ids in prompts],
            }
            tensors = {name: self.torch.tensor(values, device=self.device) for name, values in rows.items()}
            with self.torch.inference_mode():
                found = self.model.generate(**tensors, generation_config=self._greedy(max_tokens))
            said += self.chat.tokenizer.batch_decode(found[:, longest:], skip_special_tokens=True)
        return [text.strip().partition("\n")[0] for text in said]

    def save(self, folder: Path) -> None:
        """Write model and tokenizer as one model that needs no adapters; these lie in it as well, in bfloat16."""
        whole = self.model
        if hasattr(whole, "merge_and_unload"):
            adapters, settings = folder / ADAPTERS, whole.peft_config["default"]
            learnt = library("peft").get_peft_model_state_dict(whole, save_embedding_layers=False)
            adapters.mkdir(parents=True)
            library("safetensors.torch").save_file(
                {name: one.to(self.torch.bfloat16).contiguous() for name, one in learnt.items()},
                adapters / "adapter_model.safetensors",
            )
            # neither a path of this machine nor the order of a set
            settings.base_model_name_or_path = Path(settings.base_model_name_or_path).name
            settings.target_modules = sorted(settings.target_modules)
            settings.save_pretrained(adapters)
            whole = whole.merge_and_unload()
        whole.save_pretrained(folder)
        self.chat.tokenizer.save_pretrained(folder)

    def _greedy(self, max_tokens: int) -> Any:
        ends = self.model.generation_config.eos_token_id
        return library("transformers").GenerationConfig(
            max_new_tokens=max_tokens,
            do_sample=False,
            pad_token_id=self.pad,
            eos_token_id=ends if ends is not None else self.chat.tokenizer.eos_token_id,
        )


def library(name: str) -> Any:
    """Import a package that only training needs; raise ``UsageError`` where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        extra = " (or train without --lora)" if name == "peft" else ""
        raise UsageError(f"Training needs the package {name}: pip install {name}{extra}.") from error


@contextmanager
def enough_memory(model: str) -> Iterator[None]:
    """Say in one sentence when the accelerator's memory is not enough."""
    try:
        yield
    except library("torch").OutOfMemoryError as error:
        raise AnamnesisError(
            f"The accelerator's memory is too small to train {model} like this: use a smaller --batch-size or "
            "--max-length, --lora, or a smaller model."
        ) from error


@contextmanager
def _loadable(model: str) -> Iterator[None]:
    """Say in one sentence when transformers cannot load a model, with the first line of its reason."""
    try:
        yield
    except (OSError, ValueError, KeyError) as error:
        first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise AnamnesisError(
            f"The model {model} cannot be loaded ({first.rstrip('.:')}): check its name, and that it is a causal "
            "language model with a tokenizer; without a network it must lie in a folder here or in the Hugging Face "
            "cache."
        ) from error
