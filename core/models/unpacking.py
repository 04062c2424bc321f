"""``python -m core.models.unpacking gguf FILE TARGET``, ``… hub NAME TARGET`` or ``… adapters FOLDER BASE TARGET``.

It writes the target folder for transformers, and its progress to stdout. It runs as a separate process, so that the
caller does not load torch. An error is the last line on stderr.
"""

from __future__ import annotations

import functools
import os
import re
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path
from typing import Any

REPORT = re.compile(r"step (?P<step>[^:]+): (?P<done>\d+) of (?P<planned>\d+) bytes")
"""A line of progress on stdout; 0 planned while the size of a step is unknown."""
_HUB_FILES = ("*.json", "*.safetensors", "*.model", "*.txt", "*.jinja")
_EVERY_S = 0.3


def report(done: int, planned: int, step: str) -> None:
    print(f"step {step}: {done} of {planned} bytes", flush=True)


@contextmanager
def _growing(folder: Path, planned: int, step: str) -> Iterator[None]:
    """Report the size of a folder while something writes into it."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_EVERY_S):
            size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
            report(min(size, planned) if planned else size, planned, step)

    report(0, planned, step)
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _speed_up_gguf() -> None:
    """Let transformers parse a GGUF file once, and at a quarter of the cost.

    transformers opens the file for the tokenizer, the configuration and the weights. gguf takes several slices of a
    ``numpy.memmap`` for each word of the vocabulary, and such a slice costs ten times that of an array on the same
    memory.
    """
    numpy: Any = import_module("numpy")
    gguf: Any = import_module("gguf")
    memmap = numpy.memmap

    class Reader(gguf.GGUFReader):  # type: ignore[misc]
        def __init__(self, path: str, mode: str = "r") -> None:
            numpy.memmap = lambda *args, **kwargs: memmap(*args, **kwargs).view(numpy.ndarray)
            try:
                super().__init__(path, mode)
            finally:
                numpy.memmap = memmap

    gguf.GGUFReader = functools.cache(Reader)


def _counting(tensors: Sequence[Any], **_: Any) -> Iterator[Any]:
    """Report the bytes of the tensors of a GGUF file as they are converted."""
    done, planned = 0, sum(int(tensor.n_bytes) for tensor in tensors)
    for tensor in tensors:
        report(done, planned, "Converting")
        yield tensor
        done += int(tensor.n_bytes)


def from_gguf(file: Path, folder: Path) -> None:
    """Write the model of a GGUF file, with weights in bfloat16.

    transformers can read such a file, but its server does not serve it, and it does not save a dequantised model.
    Therefore the weights go into a new model of the same configuration.
    """
    report(0, 0, "Reading the model")
    torch, transformers = import_module("torch"), import_module("transformers")
    transformers.utils.logging.disable_progress_bar()
    _speed_up_gguf()
    reading: Any = import_module("transformers.modeling_gguf_pytorch_utils")
    reading.tqdm = _counting
    tokenizer = transformers.AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    read = transformers.AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    settings = {name: value for name, value in read.config.to_dict().items() if name != "quantization_config"}
    with torch.device("meta"):  # do not initialise weights that are replaced
        model = type(read)(type(read.config)(**settings))
    model.load_state_dict(read.state_dict(), assign=True)
    model.tie_weights()
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    _save(model.to(torch.bfloat16), tokenizer, folder)


def _save(model: Any, tokenizer: Any, folder: Path) -> None:
    with _growing(folder, model.get_memory_footprint(), "Saving"):
        model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def from_hub(name: str, folder: Path) -> None:
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    hub = import_module("huggingface_hub")
    report(0, 0, "Asking the Hugging Face hub")
    try:
        files = hub.HfApi().model_info(name, files_metadata=True).siblings
        planned = sum(
            file.size or 0 for file in files if any(fnmatch(file.rfilename, pattern) for pattern in _HUB_FILES)
        )
    except Exception:  # the download below has the same fault, or finds the files in its cache
        planned = 0
    with _growing(folder, planned, "Downloading"):
        hub.snapshot_download(name, local_dir=folder, allow_patterns=list(_HUB_FILES))


def from_adapters(adapters: Path, base: Path, folder: Path) -> None:
    """Write a model with adapters merged into its weights in bfloat16."""
    report(0, 0, "Loading")
    torch, transformers, peft = (import_module(name) for name in ("torch", "transformers", "peft"))
    transformers.utils.logging.disable_progress_bar()
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    report(0, 0, "Merging")
    with warnings.catch_warnings():
        # peft uses a deprecated name of transformers, which we cannot change
        warnings.simplefilter("ignore", FutureWarning)
        merged = peft.PeftModel.from_pretrained(model, adapters).merge_and_unload()
    _save(merged.to(torch.bfloat16), transformers.AutoTokenizer.from_pretrained(base), folder)


if __name__ == "__main__":
    kind, source, *more, target = sys.argv[1:]
    try:
        if kind == "gguf":
            from_gguf(Path(source), Path(target))
        elif kind == "adapters":
            from_adapters(Path(source), Path(*more), Path(target))
        else:
            from_hub(source, Path(target))
    except Exception as error:
        sys.exit(" ".join(str(error).split()) or type(error).__name__)
