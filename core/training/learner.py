"""A causal language model for fine-tuning: loads it, generates greedily, and saves it as a complete model.

torch, transformers, peft and trl are imported by name when a training begins, so that the dashboard and the type
checker do not need them.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from core.errors import AnamnesisError, UsageError
from core.training.encoding import ChatFormat

ADAPTERS = "adapters"
"""Subfolder with the adapters, in the folder of a model that was trained with adapters."""
_BATCH = 8
"""Messages that are generated together: on a CPU eight take hardly longer than one."""


class Learner:
    """A model with its tokenizer; a trainer moves the model to its device and may add adapters to it."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token or tokenizer.convert_ids_to_tokens(0)
        self.model, self.chat = model, ChatFormat(tokenizer)

    @classmethod
    def load(cls, name: str, *, half: bool = False) -> Learner:
        """Load a folder or a Hugging Face name, with ``half`` in bfloat16.

        Raises ``UsageError`` if there is no such folder, ``AnamnesisError`` if the model cannot be loaded.
        """
        torch, transformers = library("torch"), library("transformers")
        # a Hugging Face name has at most one slash and starts with a letter: any other name must be a folder
        if (name.startswith((".", "/", "~")) or name.count("/") > 1) and not Path(name).is_dir():
            raise UsageError(f"There is no folder {name}: name the folder of a model or its Hugging Face name.")
        transformers.utils.logging.disable_progress_bar()
        with _loadable(name):
            tokenizer = transformers.AutoTokenizer.from_pretrained(name)
            model = transformers.AutoModelForCausalLM.from_pretrained(
                name, dtype=torch.bfloat16 if half else torch.float32
            )
        return cls(model, tokenizer)

    @property
    def context_length(self) -> int | None:
        """Maximum tokens that the model reads; ``None`` if its configuration does not say."""
        length = getattr(self.model.config, "max_position_embeddings", None)
        return int(length) if length else None

    def replies(self, conversations: Sequence[Sequence[dict[str, str]]], max_tokens: int) -> list[str]:
        """Return the first line of the model's next message in each conversation, decoded greedily."""
        torch, tokenizer = library("torch"), self.chat.tokenizer
        self.model.eval()
        replies: list[str] = []
        for start in range(0, len(conversations), _BATCH):
            prompts = [self.chat.render(messages, prompt=True) for messages in conversations[start : start + _BATCH]]
            batch = tokenizer(
                prompts, add_special_tokens=False, padding=True, padding_side="left", return_tensors="pt"
            ).to(self.model.device)
            ids, mask = batch["input_ids"], batch["attention_mask"]
            with torch.inference_mode():
                output = self.model.generate(
                    input_ids=ids, attention_mask=mask, generation_config=self._greedy(max_tokens)
                )
            replies += tokenizer.batch_decode(output[:, ids.shape[1] :], skip_special_tokens=True)
        return [text.strip().partition("\n")[0] for text in replies]

    def save(self, folder: Path) -> None:
        """Write model and tokenizer with merged adapters; the adapters are also stored separately, in bfloat16."""
        model = self.model
        if hasattr(model, "merge_and_unload"):
            adapters, settings = folder / ADAPTERS, model.peft_config["default"]
            weights = library("peft").get_peft_model_state_dict(model, save_embedding_layers=False)
            adapters.mkdir(parents=True)
            library("safetensors.torch").save_file(
                {name: weight.to(library("torch").bfloat16).contiguous() for name, weight in weights.items()},
                adapters / "adapter_model.safetensors",
            )
            # remove a path of this machine and the random order of a set, for reproducible files
            settings.base_model_name_or_path = Path(settings.base_model_name_or_path).name
            settings.target_modules = sorted(settings.target_modules)
            settings.save_pretrained(adapters)
            model = model.merge_and_unload()
        model.save_pretrained(folder)
        self.chat.tokenizer.save_pretrained(folder)

    def _greedy(self, max_tokens: int) -> Any:
        tokenizer, ends = self.chat.tokenizer, self.model.generation_config.eos_token_id
        return library("transformers").GenerationConfig(
            max_new_tokens=max_tokens,
            do_sample=False,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=ends if ends is not None else tokenizer.eos_token_id,
        )


def library(name: str) -> Any:
    """Import a package that only training needs; raise ``UsageError`` if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise UsageError(f"Training needs the package {package}: pip install {package}.") from error


@contextmanager
def _loadable(model: str) -> Iterator[None]:
    """Turn an error of transformers while loading a model into an ``AnamnesisError`` with its first line."""
    try:
        yield
    except (OSError, ValueError, KeyError) as error:
        first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise AnamnesisError(
            f"The model {model} cannot be loaded ({first.rstrip('.:')}): check its name, and that it is a causal "
            "language model with a tokenizer; without a network it must lie in a folder here or in the Hugging Face "
            "cache."
        ) from error
