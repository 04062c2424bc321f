"""Fine-tuning from end to end on a tiny random model: the loss falls, the figures are correct, the model loads."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from core import paths
from core.errors import AnamnesisError, UsageError
from core.models.unpacking import from_adapters
from core.training import finetune
from core.training.chat import ChatLine, read_side
from core.training.finetune import FineTuneSettings, Metrics, estimate, fine_tune, key_recall, questions
from core.training.learner import Learner
from tests.core.training.learning import QUICK, make_tiny_model, make_training_set


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_training_set(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module", autouse=True)
def _short_questions() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finetune, "QUESTION_TOKENS", 4)
        yield


@pytest.fixture(scope="module")
def tuned(tiny: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Metrics]:
    out = tmp_path_factory.mktemp("tuned") / "model"
    return out, fine_tune(str(tiny), data, out, QUICK)


def test_the_loss_falls_on_both_sides(tuned: tuple[Path, Metrics]) -> None:
    _, metrics = tuned
    assert metrics.finished
    assert len(metrics.losses) == metrics.planned_steps == 4, "2 epochs of 4 dialogues in batches of 2"
    assert metrics.losses[-1] < metrics.losses[0] - 0.1
    assert metrics.after is not None
    assert metrics.after.loss < metrics.before.loss - 0.1


def cross_entropy(learner: Learner, lines: Sequence[ChatLine]) -> tuple[float, int]:
    """Return the summed cross entropy of the doctor's tokens, computed by torch for each message, and their number."""
    torch, tokenizer = import_module("torch"), learner.chat.tokenizer
    total, count = 0.0, 0
    for line in lines:
        messages = line.dumped()
        for place in (n for n, message in enumerate(messages) if message["role"] == "assistant"):
            prompt, whole = (
                tokenizer.apply_chat_template(messages[:end], add_generation_prompt=end == place, return_dict=False)
                for end in (place, place + 1)
            )
            with torch.inference_mode():
                logits = learner.model(torch.tensor([whole])).logits[0, len(prompt) - 1 : -1]
            completion = torch.tensor(whole[len(prompt) :])
            total += float(torch.nn.functional.cross_entropy(logits, completion, reduction="sum"))
            count += len(completion)
    return total, count


def test_the_first_step_has_the_mean_cross_entropy_of_the_doctors_messages(
    tiny: Path, data: Path, tmp_path: Path
) -> None:
    """A batch of four dialogues of different lengths: every token of the doctor counts once."""
    whole = FineTuneSettings(epochs=1, batch_size=4, generate=0)
    for lora in (False, True):
        metrics = fine_tune(str(tiny), data, tmp_path / f"{lora}", whole.model_copy(update={"lora": lora}))
        total, count = cross_entropy(Learner.load(str(tiny)), read_side(data, "train"))
        assert len(metrics.losses) == 1
        assert metrics.losses[0] == pytest.approx(total / count, abs=1e-4)


def test_the_saved_model_has_the_measured_loss(tuned: tuple[Path, Metrics], data: Path) -> None:
    out, metrics = tuned
    assert Metrics.model_validate_json((out / "metrics.json").read_bytes()) == metrics
    assert sorted(p.name for p in out.parent.iterdir()) == ["model"]
    learner = Learner.load(str(out))
    total, count = cross_entropy(learner, read_side(data, "test"))
    assert metrics.after is not None
    assert metrics.after.tokens == count
    assert metrics.after.loss == pytest.approx(total / count, abs=1e-4)


@pytest.mark.soak
def test_one_seed_gives_one_model(tuned: tuple[Path, Metrics], tiny: Path, data: Path, tmp_path: Path) -> None:
    out, metrics = tuned
    assert fine_tune(str(tiny), data, tmp_path / "again", QUICK) == metrics
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == (out / "model.safetensors").read_bytes()


def interrupt_at(step: int, signal_: int) -> Any:
    """Return a progress callback that sends this process a signal after a step."""

    def press(what: str, done: int, planned: int, loss: float | None) -> None:
        if what == "training" and done == step:
            os.kill(os.getpid(), signal_)

    return press


def same_files(first: Path, second: Path) -> bool:
    names, others = (sorted(p.relative_to(f) for p in f.rglob("*") if p.is_file()) for f in (first, second))
    assert names == others
    return all((first / name).read_bytes() == (second / name).read_bytes() for name in names)


def hidden(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("sign", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.soak)])
def test_a_stopped_training_resumes_to_the_same_model(
    tuned: tuple[Path, Metrics], tiny: Path, data: Path, tmp_path: Path, sign: signal.Signals
) -> None:
    out, whole = tmp_path / "model", tuned[1]
    handler = signal.getsignal(sign)
    metrics = fine_tune(str(tiny), data, out, QUICK, interrupt_at(1, sign))
    assert (metrics.finished, metrics.losses, metrics.planned_steps) == (False, whole.losses[:1], 4)
    assert metrics.after is None
    assert json.loads((out / "metrics.json").read_text())["finished"] is False
    assert (out / "model.safetensors").is_file()
    assert signal.getsignal(sign) is handler
    assert fine_tune(str(tiny), data, out, QUICK) == whole
    assert same_files(out, tuned[0])
    assert hidden(tmp_path) == []


KILLED = """
import os, signal, sys
from pathlib import Path
from core.training import finetune
from core.training.finetune import FineTuneSettings, fine_tune

finetune.QUESTION_TOKENS = 4

def kill(what, done, planned, loss):
    if what == "training" and done == 4:
        os.kill(os.getpid(), signal.SIGKILL)

tiny, data, out, settings, every = sys.argv[1:]
fine_tune(tiny, Path(data), Path(out), FineTuneSettings.model_validate_json(settings), kill, save_every=int(every))
"""


@pytest.mark.soak
@pytest.mark.parametrize(
    ("lora", "every", "expected"), [(False, 200, [2, 3, 4]), (True, 3, [3, 4])], ids=["whole", "adapters"]
)
def test_a_killed_training_resumes_from_its_checkpoint_to_the_same_bytes(
    tuned: tuple[Path, Metrics], tiny: Path, data: Path, tmp_path: Path, lora: bool, every: int, expected: list[int]
) -> None:
    """Killed in the fourth of four steps, before it is written: the checkpoint has two or three steps."""
    settings, out = QUICK.model_copy(update={"lora": lora}), tmp_path / "model"
    whole, undisturbed = tuned
    if lora:
        whole = tmp_path / "undisturbed"
        undisturbed = fine_tune(str(tiny), data, whole, settings)
    child = [sys.executable, "-c", KILLED, str(tiny), str(data), str(out), settings.model_dump_json(), str(every)]
    assert subprocess.run(child, cwd=paths.ROOT, check=False).returncode == -signal.SIGKILL
    assert (out.exists(), hidden(tmp_path)) == (False, [".model.checkpoint"])

    steps: list[int] = []
    resumed = fine_tune(
        str(tiny), data, out, settings, lambda what, n, planned, loss: steps.append(n) if loss else None
    )
    assert steps == expected, "steps of the checkpoint are not repeated"
    assert resumed == undisturbed
    assert same_files(out, whole)
    assert hidden(tmp_path) == []


def test_a_checkpoint_of_another_training_is_left_alone(tiny: Path, data: Path, tmp_path: Path) -> None:
    out, fast = tmp_path / "model", QUICK.model_copy(update={"generate": 0})
    fine_tune(str(tiny), data, out, fast, interrupt_at(1, signal.SIGINT))
    checkpoints = tmp_path / ".model.checkpoint"
    contents = {path: path.read_bytes() for path in checkpoints.rglob("*") if path.is_file()}
    with pytest.raises(UsageError, match=r"\.model\.checkpoint is of a training with .*other settings"):
        fine_tune(str(tiny), data, out, fast.model_copy(update={"epochs": 3}))
    assert {path: path.read_bytes() for path in checkpoints.rglob("*") if path.is_file()} == contents
    for name in ("optimizer.pt", "model.safetensors"):
        (broken,) = checkpoints.glob(f"checkpoint-1/{name}")
        broken.write_bytes(contents[broken][:-100])
        with pytest.raises(AnamnesisError, match=r"\.model\.checkpoint cannot be read.*: remove it"):
            fine_tune(str(tiny), data, out, fast)
        broken.write_bytes(contents[broken])
    (checkpoints / "checkpoint-1" / "trainer_state.json").unlink()
    shutil.rmtree(out)
    assert fine_tune(str(tiny), data, out, fast).finished, "an incomplete checkpoint is not used"


def test_a_checkpoint_of_an_older_version_is_refused(tiny: Path, data: Path, tmp_path: Path) -> None:
    (tmp_path / ".model.checkpoint").write_bytes(b"PK")
    with pytest.raises(
        AnamnesisError, match=r"\.model\.checkpoint cannot be read, or is of an older version: remove it"
    ):
        fine_tune(str(tiny), data, tmp_path / "model", QUICK)
    assert (tmp_path / ".model.checkpoint").read_bytes() == b"PK"


@pytest.mark.soak
def test_a_failed_save_does_not_repeat_the_training(
    tiny: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Learner, "save", full)
        with pytest.raises(OSError, match="No space"):
            fine_tune(str(tiny), data, tmp_path / "model", QUICK.model_copy(update={"generate": 0}))
    assert [path.name for path in tmp_path.iterdir()] == [".model.checkpoint"]
    monkeypatch.setattr("trl.SFTTrainer.training_step", lambda *_: pytest.fail("a step is taken again"))
    assert fine_tune(str(tiny), data, tmp_path / "model", QUICK.model_copy(update={"generate": 0})).finished


def test_an_estimate_counts_dialogues_and_steps_and_writes_nothing(tiny: Path, data: Path, tmp_path: Path) -> None:
    before = sorted(data.iterdir())
    size = estimate(str(tiny), data, QUICK)
    assert (size.dialogues, size.steps, size.device) == ({"train": 4, "test": 2}, 4, "cpu")
    assert size.seconds > 0
    assert sorted(data.iterdir()) == before
    assert list(tmp_path.iterdir()) == []


def test_too_little_memory_is_one_sentence(
    tiny: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_much(*_: object) -> None:
        raise import_module("torch").OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    monkeypatch.setattr("trl.SFTTrainer.training_step", too_much)
    with pytest.raises(AnamnesisError, match=r"memory is too small .*--batch-size"):
        fine_tune(str(tiny), data, tmp_path / "model", QUICK)


def test_a_loss_that_is_no_number_is_one_sentence(tiny: Path, data: Path, tmp_path: Path) -> None:
    with pytest.raises(AnamnesisError, match=r"In step \d the loss is no number any more: use a lower --lr"):
        fine_tune(str(tiny), data, tmp_path / "model", QUICK.model_copy(update={"generate": 0, "lr": 1e30}))


def test_unreadable_models_and_data_are_one_sentence(tiny: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=r"There is no folder /no/such"):
        fine_tune("/no/such", data, out, QUICK)
    with pytest.raises(AnamnesisError, match=r"The model \S+/empty cannot be loaded") as caught:
        fine_tune(str(tmp_path / "empty"), data, out, QUICK)
    assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="export training"):
        fine_tune(str(tiny), tmp_path / "empty", out, QUICK)
    leaked = make_training_set(tmp_path / "leaked")
    row = (leaked / "train.jsonl").read_text().splitlines()[0]
    (leaked / "test.jsonl").write_text(row.replace('"split":"train"', '"split":"test"') + "\n")
    with pytest.raises(AnamnesisError, match=r"stands in train\.jsonl and in test\.jsonl"):
        fine_tune(str(tiny), leaked, out, QUICK)
    with pytest.raises(UsageError, match=r"train\.jsonl has a word of the doctor within 16 tokens"):
        fine_tune(str(tiny), data, out, FineTuneSettings(max_length=16))
    with pytest.raises(UsageError, match="exists already"):
        fine_tune(str(tiny), data, data, QUICK)
    assert not out.exists()


def test_a_model_that_cannot_be_downloaded_is_one_sentence(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def offline(*_: object) -> None:
        raise OSError("We couldn't connect to 'https://huggingface.co'.\nCheck your internet connection.")

    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", offline)
    words = r"^The model unknown/model cannot be loaded \(We couldn't connect to 'https://huggingface.co'\): check its"
    with pytest.raises(AnamnesisError, match=words):
        fine_tune("unknown/model", data, tmp_path / "model", QUICK)


@pytest.mark.soak
def test_adapters_are_merged_into_a_whole_model(tiny: Path, data: Path, tmp_path: Path) -> None:
    settings = QUICK.model_copy(update={"lora": True, "generate": 0})
    metrics = fine_tune(str(tiny), data, tmp_path / "model", settings)
    assert metrics.after is not None
    assert metrics.after.loss < metrics.before.loss - 0.05
    assert [path.name for path in (tmp_path / "model").glob("adapter*")] == ["adapters"]
    assert str(tiny) not in (tmp_path / "model" / "adapters" / "adapter_config.json").read_text(), (
        "no path of this machine"
    )
    total, count = cross_entropy(Learner.load(str(tmp_path / "model")), read_side(data, "test"))
    assert metrics.after.loss == pytest.approx(total / count, abs=1e-3)
    # the adapters and the base model give the same model again
    from_adapters(tmp_path / "model" / "adapters", tiny, tmp_path / "merged")
    whole, merged = (Learner.load(str(tmp_path / name)).model.state_dict() for name in ("model", "merged"))
    assert max(float((whole[name] - merged[name]).abs().max()) for name in whole) < 0.01


class Parrot:
    """A model that always asks the same question, and records its input."""

    def __init__(self) -> None:
        self.prompts: list[str] = []

    def replies(self, conversations: Sequence[Sequence[dict[str, str]]], max_tokens: int) -> list[str]:
        self.prompts += [messages[-1]["content"] for messages in conversations]
        return ["Any chest pains?"] * len(conversations)


def test_the_model_asks_every_question_but_not_the_diagnosis(data: Path) -> None:
    parrot, line = Parrot(), read_side(data, "test")[0]
    questions_asked = questions(parrot, line)  # type: ignore[arg-type]
    assert len(questions_asked) == len(line.keys) == 4
    assert parrot.prompts == [message.content for message in line.messages[1:-2:2]]


def test_questions_in_a_batch_equal_single_ones(tuned: tuple[Path, Metrics], data: Path) -> None:
    learner = Learner.load(str(tuned[0]))
    messages = read_side(data, "test")[0].dumped()
    conversations = [messages[:n] for n in (2, 4, 6)]
    assert learner.replies(conversations, 4) == [
        learner.replies([conversation], 4)[0] for conversation in conversations
    ]


def test_recall_of_keys_is_rouge_1_of_all_questions_against_all_keys() -> None:
    # keys in stems: chest, pain, age, and, sex; the questions hold chest and pain once each and age: 3 of 5
    assert key_recall(["chest pain", "age and sex"], ["Any chest pains?", "Your age?", "Pain?"]) == pytest.approx(0.6)
    assert key_recall(["chest pain"], []) == 0.0


def test_a_line_has_the_keys_of_its_case(data: Path) -> None:
    line: ChatLine = read_side(data, "test")[0]
    assert line.keys == ("age and sex", "main complaint", "medication", "troponin")


def test_the_command_line_and_the_dashboard_start_without_the_packages_of_training() -> None:
    code = (
        "import sys, core.cli.app, core.cli.training, core.training.finetune; "
        "print(*{'torch', 'transformers', 'trl', 'peft', 'datasets'} & set(sys.modules))"
    )
    child = subprocess.run([sys.executable, "-c", code], cwd=paths.ROOT, check=True, capture_output=True, text=True)
    assert child.stdout.strip() == ""
