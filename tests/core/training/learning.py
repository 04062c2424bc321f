"""A tiny random model and a small training set for the tests of fine-tuning."""

from __future__ import annotations

from pathlib import Path

from core.training.export import ExportSettings, build, write
from core.training.finetune import FineTuneSettings
from tests.core.training.golden_cases import PROFILE, a_case
from tests.support.tiny_model import _write

QUICK = FineTuneSettings(epochs=2, lr=1e-2, batch_size=2)
CHATML = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are helpful.<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""The template of SmolLM2, in short: trl has no form of it for training."""


def make_tiny_model(folder: Path, template: str | None = CHATML) -> Path:
    """Write the tiny model in this process, where torch is loaded already."""
    folder.mkdir(exist_ok=True)
    _write(folder)
    (folder / "chat_template.jinja").unlink()
    if template is not None:
        (folder / "chat_template.jinja").write_text(template)
    return folder


def make_training_set(folder: Path) -> Path:
    """Write a set of four train cases and two test cases with four items each."""
    write(folder, build([a_case(n, profile=PROFILE) for n in range(6)], ExportSettings(test_share=1 / 3)))
    return folder
