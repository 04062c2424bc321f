"""``python -m core.models.unpacking MODEL…``: writes models as folders for transformers, one after another.

A model is ``gguf FILE TARGET``, ``hub NAME TARGET`` or ``adapters FOLDER BASE TARGET``. Progress goes to stdout. It is
a separate process, so that the caller does not load torch. An error is the last line on stderr.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path
from typing import Any

REPORT = re.compile(r"step (?P<step>[^:]+): (?P<done>\d+) of (?P<planned>\d+) bytes")
"""A line of progress on stdout; 0 planned while the size of a step is unknown."""
_HUB_FILES = ("*.json", "*.safetensors", "*.model", "*.txt", "*.jinja")
_EVERY_S = 0.3
_READING = "Reading the model"
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")


def report(done: int, planned: int, step: str) -> None:
    print(f"step {step}: {done} of {planned} bytes", flush=True)


@contextmanager
def _watched(size: Callable[[], int], planned: int, step: str) -> Iterator[None]:
    """Report the size of something while it grows."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_EVERY_S):
            report(min(size(), planned) if planned else size(), planned, step)

    report(0, planned, step)
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _code() -> int:
    """Return the bytes of compiled Python code that is loaded."""
    specs = [getattr(module, "__spec__", None) for module in list(sys.modules.values())]
    files = {spec.cached for spec in specs if spec is not None and spec.cached}
    return sum(os.stat(file).st_size for file in files if os.path.exists(file))


_CODE = 70_000_000
"""Bytes of compiled code of torch and transformers, with the versions in requirements.lock."""


@functools.cache
def _libraries() -> tuple[Any, Any]:
    """Load torch and transformers: several seconds, for which the code loaded so far is the progress."""
    with _watched(_code, _CODE, "Loading PyTorch"):
        torch, transformers = import_module("torch"), import_module("transformers")
        # transformers imports most of its code at the first use
        _ = transformers.PreTrainedModel, transformers.AutoTokenizer, transformers.AutoModelForCausalLM
    transformers.utils.logging.disable_progress_bar()
    return torch, transformers


def _read_gguf_faster(planned_passes: int) -> None:
    """Let transformers read a GGUF file at a fraction of the cost, and report the bytes of its metadata.

    transformers opens the file for the tokenizer, the configuration and the weights, and decodes the metadata each
    time. gguf slices a ``numpy.memmap`` several times for each word of the vocabulary, transformers copies each word
    byte by byte, and builds the table of the names of all tensors for each module of the model.
    """
    gguf: Any = import_module("gguf")
    reading: Any = import_module("transformers.modeling_gguf_pytorch_utils")
    kinds, scalars = gguf.GGUFValueType, gguf.GGUFReader.gguf_scalar_to_np
    parse_value = reading._gguf_parse_value
    done = planned = reported = 0

    class Reader(gguf.GGUFReader):  # type: ignore[misc]
        def __init__(self, path: str, mode: str = "r") -> None:
            nonlocal planned
            super().__init__(path, mode)
            planned = planned_passes * sum(
                int(field.parts[index].nbytes) for field in self.fields.values() for index in field.data
            )

        def _get_field_parts(self, start: int, raw_kind: int) -> tuple[int, list[Any], list[int], list[Any]]:
            inner = kinds(int(self._get(start, numpy.uint32)[0])) if raw_kind == kinds.ARRAY else None
            if self.byte_order != "I" or inner is None or inner == kinds.ARRAY:
                return super()._get_field_parts(start, raw_kind)  # type: ignore[no-any-return]
            parts = [self._get(start, numpy.uint32), self._get(start + 4, numpy.uint64)]
            count, offset = int(parts[1][0]), start + 12
            if inner != kinds.STRING:
                values = numpy.frombuffer(self.data, scalars[inner], count, offset)
                offset += values.nbytes
                parts.extend(values.reshape(count, 1))
                return offset - start, parts, list(range(2, 2 + count)), [kinds.ARRAY, inner]
            for _ in range(count):
                length = numpy.frombuffer(self.data, "<u8", 1, offset)
                parts += length, numpy.frombuffer(self.data, numpy.uint8, int(length[0]), offset + 8)
                offset += 8 + int(length[0])
            return offset - start, parts, list(range(3, 3 + 2 * count, 2)), [kinds.ARRAY, inner]

    def parse(value: Any, kind: Any) -> Any:
        nonlocal done, reported
        done += int(value.nbytes)
        if done - reported > planned / 100:
            report(min(done, planned), planned, _READING)
            reported = done
        is_text = kind[-1] == kinds.STRING
        return value.tobytes().decode() if is_text else parse_value(value, kind)

    numpy: Any = import_module("numpy")
    gguf.GGUFReader = functools.cache(Reader)
    gguf.get_tensor_name_map = functools.cache(gguf.get_tensor_name_map)
    reading._gguf_parse_value = parse


def _counted(step: str, size: Callable[[Any], int]) -> Callable[..., Iterator[Any]]:
    """Return a ``tqdm`` that reports the bytes of the items so far."""

    def iterate(items: Sequence[Any], **_: Any) -> Iterator[Any]:
        sizes, done = [size(item) for item in items], 0
        for item, item_size in zip(items, sizes, strict=True):
            report(done, sum(sizes), step)
            yield item
            done += item_size

    return iterate


def from_gguf(file: Path, folder: Path) -> None:
    """Write the model of a GGUF file, with weights in bfloat16.

    transformers can read such a file, but its server does not serve it, and it does not save a dequantised model.
    Therefore the weights go into a new model of the same configuration.
    """
    torch, transformers = _libraries()
    report(0, 0, _READING)
    _read_gguf_faster(planned_passes=3)
    reading: Any = import_module("transformers.modeling_gguf_pytorch_utils")
    reading.tqdm = _counted("Converting", lambda tensor: int(tensor.n_bytes))
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
    with _watched(lambda: _size(folder), model.get_memory_footprint(), "Saving"):
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
    with _watched(lambda: _size(folder), planned, "Downloading"):
        hub.snapshot_download(name, local_dir=folder, allow_patterns=list(_HUB_FILES))


def from_adapters(adapters: Path, base: Path, folder: Path) -> None:
    """Write a model with adapters merged into its weights in bfloat16."""
    torch, transformers = _libraries()
    peft, tuners = import_module("peft"), import_module("peft.tuners.tuners_utils")
    report(0, 0, "Loading the model")
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    with warnings.catch_warnings():
        # peft uses a deprecated name of transformers, which we cannot change
        warnings.simplefilter("ignore", FutureWarning)
        adapted = peft.PeftModel.from_pretrained(model, adapters)
    modules = dict(adapted.base_model.model.named_modules())
    tuners.tqdm = _counted(
        "Merging", lambda name: sum(weights.nbytes for weights in modules[name].parameters(recurse=False))
    )
    merged = adapted.merge_and_unload()
    _save(merged.to(torch.bfloat16), transformers.AutoTokenizer.from_pretrained(base), folder)


def is_complete(folder: Path) -> bool:
    described = all((folder / file).is_file() for file in ("config.json", "tokenizer_config.json"))
    return described and any(any(folder.glob(pattern)) for pattern in _WEIGHTS)


def write(kind: str, source: str, base: str, target: Path) -> None:
    """Write a model to a temporary folder, which replaces ``target`` when it is complete."""
    half = target.with_name(f".{target.name}.half")
    if kind == "gguf":
        from_gguf(Path(source), half)
    elif kind == "adapters":
        from_adapters(Path(source), Path(base), half)
    else:
        from_hub(source, half)
    if not is_complete(half):
        raise ValueError("it is not whole")
    shutil.rmtree(target, ignore_errors=True)
    half.replace(target)


if __name__ == "__main__":
    words = iter(sys.argv[1:])
    try:
        for kind in words:
            source, base = next(words), next(words) if kind == "adapters" else ""
            write(kind, source, base, Path(next(words)))
    except Exception as error:
        sys.exit(" ".join(str(error).split()) or type(error).__name__)
