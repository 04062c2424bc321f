"""Local models: messages of a failing server, and start, use and end of a real one."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from core.errors import ProviderError
from core.models import local_server
from core.models.base import Completion, Delayed, Sampling, TextPiece
from core.models.local import LocalModel
from core.models.local_server import advice, last_words, precision
from core.models.registry import load_registry
from core.models.settings import SHIPPED
from core.models.spec import LocalServing, ModelSpec
from tests.support.asking import ask, hear
from tests.support.tiny_model import make_tiny_model

ROOT = Path(__file__).resolve().parents[3]
SUPERVISOR = ROOT / "core" / "models" / "supervise.py"


def test_the_line_with_the_reason_is_found(subtests: pytest.Subtests) -> None:
    table: list[tuple[list[str], str, str]] = [
        (
            [
                "Traceback (most recent call last):",
                "OSError: We couldn't connect to 'https://huggingface.co' to load the files.",
                "Check your internet connection.",
            ],
            "We couldn't connect to 'https://huggingface.co' to load the files",
            "HF_HUB_OFFLINE",
        ),
        (["x", "torch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB", "INFO: bye"], "Tried 2 GiB", "smaller model"),
        (["ImportError: Missing dependencies: pip install transformers[serving]"], "Missing", "requirements.txt"),
        (["Segmentation fault", "", "INFO:     done"], "Segmentation fault", "by hand"),
        (["KeyError:"], "KeyError:", "by hand"),
        ([], "", "by hand"),
    ]
    for lines, words, hint in table:
        with subtests.test(lines=lines, words=words):
            line = last_words(lines)
            assert words in line
            assert hint in advice(line)


def test_processors_without_bfloat16_use_float32(tmp_path: Path, subtests: pytest.Subtests) -> None:
    table: list[tuple[str, str, tuple[str, ...]]] = [
        ("fpu sse2 avx2", "", ("--dtype", "float32")),
        ("fpu avx512f avx512_bf16", "", ()),
        ("fp asimd i8mm bf16", "", ()),
        ("fpu sse2 avx2", "nvidia0", ()),
    ]
    for flags, device, arguments in table:
        with subtests.test(flags=flags, device=device):
            cpu, devices, model = tmp_path / "cpuinfo", tmp_path / "dev", tmp_path / "model"
            cpu.write_text(f"model name : any\nflags : {flags}\n")
            for folder in (devices, model):
                folder.mkdir(exist_ok=True)
            (devices / (device or "null")).touch()
            (model / "model.safetensors").write_bytes(b"weights")
            assert tuple(precision(str(model), cpu=cpu, devices=devices)) == arguments
            assert precision("organisation/model", cpu=cpu, devices=devices) == (), "the size of the model is not known"
            with (model / "model.safetensors").open("wb") as file:
                file.truncate(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4)
            assert precision(str(model), cpu=cpu, devices=devices) == (), "in float32 it would fill half of the memory"


def has_ended(pid: int, patience_s: float = 10) -> bool:
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def child_of(pid: int, patience_s: float = 10) -> int:
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if children:
            return int(children[0])
        time.sleep(0.05)
    raise AssertionError("no child was started")


@pytest.fixture
def supervised() -> subprocess.Popen[bytes]:
    command = [sys.executable, "-I", str(SUPERVISOR), str(os.getpid()), "sh", "-c", "sleep 300 & sleep 300; :"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    "end",
    [lambda process: process.stdin.close(), lambda process: process.kill()],
    ids=["owner ended", "supervisor killed"],
)
def test_the_supervised_server_ends(
    supervised: subprocess.Popen[bytes], end: Callable[[subprocess.Popen[bytes]], None]
) -> None:
    server = child_of(supervised.pid)
    end(supervised)
    assert has_ended(server)
    supervised.wait(10)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_servers_own_children_end_with_it(supervised: subprocess.Popen[bytes]) -> None:
    grandchild = child_of(child_of(supervised.pid))
    assert supervised.stdin is not None
    supervised.stdin.close()
    assert has_ended(grandchild)
    supervised.wait(10)


def spec_of(directory: Path, **serving: object) -> ModelSpec:
    spec = load_registry([SHIPPED]).spec(f"hf/{directory}")
    return ModelSpec(**{**vars(spec), "serving": LocalServing(**serving)})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.mark.local_model
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
class TestRealServer:
    @pytest.fixture(autouse=True)
    def _offline(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    async def test_a_server_streams_samples_and_ends_after_closing(self, tiny: Path) -> None:
        async with load_registry([SHIPPED]) as registry:
            model, again = registry.open(f"hf/{tiny}"), registry.open(f"hf/{tiny}")
            assert isinstance(model, LocalModel)
            assert isinstance(again, LocalModel)
            items = await hear(model, sampling=Sampling(temperature=0.0, max_tokens=8))
            completion = items[-1]
            assert isinstance(completion, Completion)
            assert [item.words for item in items if isinstance(item, Delayed)] == ["the model is being loaded", "", ""]
            assert len([item for item in items if isinstance(item, TextPiece)]) > 1
            assert completion.finish_reason == "length"
            assert completion.usage.completion_tokens == 8
            assert not completion.usage.estimated
            assert completion.cost_usd == 0.0, "a model on this machine costs nothing"
            same = await ask(again, sampling=Sampling(temperature=0.0, max_tokens=8))
            assert same.text == completion.text, "temperature 0 is greedy"
            assert again.server is model.server, "one server serves both"
            hot = {(await ask(model, sampling=Sampling(temperature=2.0, max_tokens=8, seed=s))).text for s in range(3)}
            assert len(hot) == 3, "the temperature has an effect"
            seeded = Sampling(temperature=2.0, max_tokens=8, seed=5)
            replies = await asyncio.gather(*(ask(m, sampling=seeded) for m in (model, again, model, again)))
            assert len({reply.text for reply in replies}) == 1, "a seed gives the same text, also in parallel"
            assert model.server is not None
            assert model.server.process is not None
            supervisor = model.server.process.pid
            server = child_of(supervisor)
            await model.aclose()
            assert not has_ended(server, 0.2), "the other model still uses the server"
        assert has_ended(server, 0.2)
        assert has_ended(supervisor, 0.2)
        assert not local_server._servers

    @pytest.mark.slow
    def test_the_server_dies_with_a_killed_owner(self, tiny: Path) -> None:
        owner_code = """
            import asyncio, sys
            from core.models.base import Sampling
            from core.models.registry import load_registry
            async def main():
                model = load_registry().open(sys.argv[1])
                await model._ready()
                print(model.server.process.pid, flush=True)
                await asyncio.sleep(300)
            asyncio.run(main())
        """
        command = [sys.executable, "-c", textwrap.dedent(owner_code), f"hf/{tiny}"]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as owner:
            assert owner.stdout is not None
            supervisor = int(owner.stdout.readline())
            server = child_of(supervisor)
            os.kill(owner.pid, signal.SIGKILL)
            assert has_ended(server)
            assert has_ended(supervisor)

    @pytest.mark.slow
    async def test_a_broken_folder_is_explained_once_for_all_callers(self, tmp_path: Path) -> None:
        (tmp_path / "config.json").write_text("{}")
        model = LocalModel(spec_of(tmp_path))
        outcomes = await asyncio.gather(ask(model), ask(model), return_exceptions=True)
        for outcome in outcomes:
            assert isinstance(outcome, ProviderError)
            assert "check that the folder holds a whole model" in str(outcome)
            assert "Traceback" not in str(outcome)
            assert "\n" not in str(outcome)
        began = time.monotonic()
        with pytest.raises(ProviderError, match="could not be started"):
            await ask(model)
        assert time.monotonic() - began < 1, "a failed start is not repeated for every trial"
        await model.aclose()

    @pytest.mark.slow
    async def test_a_dead_server_is_reported_and_a_slow_one_is_ended(self, tiny: Path) -> None:
        model = LocalModel(spec_of(tiny))
        await model._ready()
        assert model.server is not None
        assert model.server.process is not None
        os.kill(child_of(model.server.process.pid), signal.SIGKILL)
        assert has_ended(model.server.process.pid)
        with pytest.raises(ProviderError, match="stopped"):
            await ask(model)
        await model.aclose()
        slow = LocalModel(spec_of(tiny, start_timeout_s=0.5))
        with pytest.raises(ProviderError, match=r"not ready within 0\.5 seconds") as caught:
            await ask(slow)
        assert caught.value.kind == "timeout"
        await slow.aclose()
        assert not local_server._servers

    async def test_closing_cancels_a_start(self, tiny: Path) -> None:
        model = LocalModel(spec_of(tiny))
        call = asyncio.create_task(ask(model))
        await asyncio.sleep(1)
        began = time.monotonic()
        await model.aclose()
        with pytest.raises(ProviderError) as caught:
            await call
        assert caught.value.kind == "cancelled"
        assert time.monotonic() - began < 8
