"""A tiny random model and a small training set for the tests of fine-tuning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from core.training.export import ExportSettings, build, write
from core.training.finetune import FineTuneSettings
from tests.core.training.golden_cases import PROFILE, a_case
from tests.support.tiny_model import _write

QUICK = FineTuneSettings(epochs=2, lr=3e-3, batch_size=2, generate=1)


def make_tiny_model(folder: Path) -> Path:
    """Write the tiny model in this process, where torch is loaded already."""
    folder.mkdir(exist_ok=True)
    _write(folder)
    return folder


def make_training_set(folder: Path) -> Path:
    """Write a set of four train cases and two test cases with four items each."""
    write(folder, build([a_case(n, profile=PROFILE) for n in range(6)], ExportSettings(test_share=1 / 3)))
    return folder


def a_tokenizer(template: str | None, eos: str | None = "</s>") -> Any:
    """A byte-level tokenizer without merges: every letter is a token, and special tokens are whole."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = {letter: n for n, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=letters, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=eos)
    fast.chat_template = template
    return fast
