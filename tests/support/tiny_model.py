"""A tiny random Mistral with a tokenizer and a chat template: what it says is nonsense, how it is served is real."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)
_TEXTS = ("The patient has had a red rash on the arm for two days.", "How long have you had the fever?")


def make_tiny_model(directory: Path) -> Path:
    """Write the model into ``directory``, in a child process: torch stays out of the caller's."""
    root = Path(__file__).resolve().parents[2]
    subprocess.run([sys.executable, "-m", "tests.support.tiny_model", str(directory)], check=True, cwd=root)
    return directory


def _write(directory: Path) -> None:
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import MistralConfig, MistralForCausalLM, PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<unk>", "<s>", "</s>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(_TEXTS, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="</s>"
    )
    fast.chat_template = _TEMPLATE
    fast.save_pretrained(directory)
    config = MistralConfig(
        vocab_size=len(fast),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
    )
    torch.manual_seed(0)  # what is learnt from one random model need not be learnt from another
    MistralForCausalLM(config).save_pretrained(directory)


if __name__ == "__main__":
    _write(Path(sys.argv[1]))
