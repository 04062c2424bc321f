"""``python -m core.models.unpacking gguf FILE TARGET``, ``… hub NAME TARGET`` or ``… adapters FOLDER BASE TARGET``.

It writes the target folder for transformers. It runs as a separate process, so that the caller does not load torch. An
error is the last line of its output.
"""

from __future__ import annotations

import os
import sys
import warnings
from importlib import import_module
from pathlib import Path


def from_gguf(file: Path, folder: Path) -> None:
    """Write the model of a GGUF file, with weights in bfloat16.

    transformers can read such a file, but its server does not serve it, and it does not save a dequantised model.
    Therefore the weights go into a new model of the same configuration.
    """
    torch, transformers = import_module("torch"), import_module("transformers")
    transformers.utils.logging.disable_progress_bar()
    tokenizer = transformers.AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    read = transformers.AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    settings = {name: value for name, value in read.config.to_dict().items() if name != "quantization_config"}
    with torch.device("meta"):  # do not initialise weights that are replaced
        model = type(read)(type(read.config)(**settings))
    model.load_state_dict(read.state_dict(), assign=True)
    model.tie_weights()
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def from_hub(name: str, folder: Path) -> None:
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    patterns = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja"]
    import_module("huggingface_hub").snapshot_download(name, local_dir=folder, allow_patterns=patterns)


def from_adapters(adapters: Path, base: Path, folder: Path) -> None:
    """Write a model with adapters merged into its weights in bfloat16."""
    torch, transformers, peft = (import_module(name) for name in ("torch", "transformers", "peft"))
    transformers.utils.logging.disable_progress_bar()
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    with warnings.catch_warnings():
        # peft uses a deprecated name of transformers, which we cannot change
        warnings.simplefilter("ignore", FutureWarning)
        merged = peft.PeftModel.from_pretrained(model, adapters).merge_and_unload()
    merged.to(torch.bfloat16).save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(base).save_pretrained(folder)


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
