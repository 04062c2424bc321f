"""Fine-tuning a tiny random model: the loss falls, only the doctor's words count, the saved model loads."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from core import paths
from core.errors import AnamnesisError, UsageError
from core.models.unpacking import from_adapters
from core.training.chat import read_side
from core.training.finetune import FineTuneSettings, Metrics, fine_tune
from tests.core.training.learning import QUICK, make_tiny_model, make_training_set

ALTERNATING = (
    "{% for m in messages %}{% if m['role'] == 'system' %}{{ raise_exception('System role not supported') }}"
    "{% elif m['role'] == 'user' %}[INST] {{ m['content'] }} [/INST]"
    "{% else %}{% generation %} {{ m['content'] }}</s>{% endgeneration %}{% endif %}{% endfor %}"
)
UNKNOWN = "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] | upper }}{% endfor %}"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_training_set(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def tuned(tiny: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Metrics]:
    out = tmp_path_factory.mktemp("tuned") / "model"
    return out, fine_tune(str(tiny), data, out, QUICK)


def loaded(folder: Path) -> tuple[Any, Any]:
    transformers = import_module("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=import_module("torch").float32)
    return model, transformers.AutoTokenizer.from_pretrained(folder)


@pytest.mark.slow
def test_the_loss_falls_and_nothing_else_is_left(tuned: tuple[Path, Metrics]) -> None:
    out, metrics = tuned
    assert metrics.steps == len(metrics.losses) == 4, "2 epochs of 4 dialogues in batches of 2"
    assert metrics.losses[-1] < metrics.losses[0] - 0.1
    assert Metrics.model_validate_json((out / "metrics.json").read_bytes()) == metrics
    assert [path.name for path in out.parent.iterdir()] == ["model"]


def test_the_first_loss_is_the_mean_cross_entropy_of_the_doctors_messages(
    tiny: Path, data: Path, tmp_path: Path
) -> None:
    """A batch of four dialogues of different lengths: every token of the doctor counts once, with its end mark."""
    metrics = fine_tune(str(tiny), data, tmp_path / "model", FineTuneSettings(epochs=1, batch_size=4))
    torch, (model, tokenizer) = import_module("torch"), loaded(tiny)
    total, count = 0.0, 0
    for line in read_side(data, "train"):
        messages = line.dumped()
        for place in (n for n, message in enumerate(messages) if message["role"] == "assistant"):
            prompt, whole = (
                tokenizer.apply_chat_template(messages[:end], add_generation_prompt=end == place, return_dict=False)
                for end in (place, place + 1)
            )
            with torch.inference_mode():
                logits = model(torch.tensor([whole])).logits[0, len(prompt) - 1 : -1]
            completion = torch.tensor(whole[len(prompt) :])
            total += float(torch.nn.functional.cross_entropy(logits, completion, reduction="sum"))
            count += len(completion)
    assert metrics.losses == [pytest.approx(total / count, abs=1e-4)]


@pytest.mark.slow
def test_the_adapters_and_the_base_model_give_the_saved_model_again(
    tuned: tuple[Path, Metrics], tiny: Path, tmp_path: Path
) -> None:
    out, _ = tuned
    assert str(tiny) not in (out / "adapters" / "adapter_config.json").read_text(), "no path of this machine"
    from_adapters(out / "adapters", tiny, tmp_path / "merged")
    whole, merged, before = (loaded(folder)[0].state_dict() for folder in (out, tmp_path / "merged", tiny))
    assert max(float((whole[name] - merged[name]).abs().max()) for name in whole) < 0.01
    assert max(float((whole[name] - before[name]).abs().max()) for name in whole) > 0.01
    assert loaded(out)[1].chat_template == loaded(tiny)[1].chat_template


@pytest.mark.slow
def test_models_without_a_template_or_without_a_system_role_are_trained(data: Path, tmp_path: Path) -> None:
    plain = fine_tune(str(make_tiny_model(tmp_path / "plain", None)), data, tmp_path / "a", QUICK)
    assert plain.takes_system
    assert plain.losses[-1] < plain.losses[0]
    tokenizer = loaded(tmp_path / "a")[1]
    said = [{"role": "system", "content": "Be a doctor."}, {"role": "user", "content": "I cough."}]
    prompt = tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True)
    assert prompt == "<s>system: Be a doctor.\nuser: I cough.\nassistant: "
    assert "generation %}" not in tokenizer.chat_template
    folded = fine_tune(str(make_tiny_model(tmp_path / "alternating", ALTERNATING)), data, tmp_path / "b", QUICK)
    assert not folded.takes_system
    assert folded.losses[-1] < folded.losses[0]


KILLED = """
import os, signal, sys
from importlib import import_module
from pathlib import Path
from core.training.finetune import FineTuneSettings, fine_tune

trl = import_module("trl")
step, done = trl.SFTTrainer.training_step, []

def kill(*given, **more):
    done.append(step(*given, **more))
    if len(done) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return done[-1]

trl.SFTTrainer.training_step = kill
tiny, data, out, settings = sys.argv[1:]
fine_tune(tiny, Path(data), Path(out), FineTuneSettings.model_validate_json(settings))
"""


@pytest.mark.slow
def test_a_killed_training_resumes_from_its_checkpoint_to_the_same_bytes(
    tuned: tuple[Path, Metrics], tiny: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed in the fourth of four steps: the checkpoint has the two steps of the first epoch."""
    out, steps = tmp_path / "model", []
    child = [sys.executable, "-c", KILLED, str(tiny), str(data), str(out), QUICK.model_dump_json()]
    assert subprocess.run(child, cwd=paths.ROOT, check=False).returncode == -signal.SIGKILL
    assert not out.exists()
    trainer = import_module("trl").SFTTrainer
    step = trainer.training_step
    monkeypatch.setattr(trainer, "training_step", lambda *given, **more: steps.append(1) or step(*given, **more))
    assert fine_tune(str(tiny), data, out, QUICK) == tuned[1]
    assert len(steps) == 2, "steps of the checkpoint are not repeated"
    assert (out / "model.safetensors").read_bytes() == (tuned[0] / "model.safetensors").read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_what_cannot_be_trained_is_one_sentence(
    tiny: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "model"
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=r"There is no folder /no/such"):
        fine_tune("/no/such", data, out, QUICK)
    with pytest.raises(AnamnesisError, match=r"The model \S+/empty cannot be loaded") as caught:
        fine_tune(str(tmp_path / "empty"), data, out, QUICK)
    assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="export training"):
        fine_tune(str(tiny), tmp_path / "empty", out, QUICK)
    with pytest.raises(UsageError, match=r"train\.jsonl has a word of the doctor within 16 tokens"):
        fine_tune(str(tiny), data, out, FineTuneSettings(max_length=16))
    with pytest.raises(UsageError, match="exists already"):
        fine_tune(str(tiny), data, data, QUICK)
    with pytest.raises(AnamnesisError, match=r"chat template of .* does not say which words are the model's own"):
        fine_tune(str(make_tiny_model(tmp_path / "unknown", UNKNOWN)), data, out, QUICK)
    with pytest.raises(AnamnesisError, match=r"The loss is no number any more: use a lower --lr"):
        fine_tune(str(tiny), data, out, QUICK.model_copy(update={"lr": 1e30}))
    leaked = make_training_set(tmp_path / "leaked")
    row = (leaked / "train.jsonl").read_text().splitlines()[0]
    (leaked / "test.jsonl").write_text(row.replace('"split":"train"', '"split":"test"') + "\n")
    with pytest.raises(AnamnesisError, match=r"stands in train\.jsonl and in test\.jsonl"):
        fine_tune(str(tiny), leaked, out, QUICK)

    def too_much(*_: object) -> None:
        raise import_module("torch").OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    monkeypatch.setattr("trl.SFTTrainer.training_step", too_much)
    with pytest.raises(AnamnesisError, match=r"memory is too small .*--batch-size"):
        fine_tune(str(tiny), data, out, QUICK)
    assert not out.exists()


def test_a_line_has_the_keys_of_its_case(data: Path) -> None:
    line = json.loads((data / "test.jsonl").read_text().splitlines()[0])
    assert line["keys"] == ["age and sex", "main complaint", "medication", "troponin"]


@pytest.mark.slow
def test_the_command_line_and_the_dashboard_start_without_the_packages_of_training() -> None:
    code = (
        "import sys, core.cli.app, core.cli.training, core.training.finetune; "
        "print(*{'torch', 'transformers', 'trl', 'peft', 'datasets'} & set(sys.modules))"
    )
    child = subprocess.run([sys.executable, "-c", code], cwd=paths.ROOT, check=True, capture_output=True, text=True)
    assert child.stdout.strip() == ""
