"""A GGUF file becomes a folder for transformers, and each long step reports true bytes."""

from __future__ import annotations

import json
import string
from pathlib import Path

import numpy
import pytest

from core.models.fetch import get

WIDTH, HEADS, HIDDEN, TOKENS = 32, 4, 64, 96


@pytest.fixture
def gguf_file(tmp_path: Path) -> Path:
    """A language model of one layer with random weights and a vocabulary of single characters."""
    gguf = pytest.importorskip("gguf")
    file = tmp_path / "tiny.gguf"
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(TOKENS)
    characters = list(string.ascii_letters + string.digits)
    tokens = ["<s>", "</s>", *characters, *(f"a{letter}" for letter in characters)][:TOKENS]
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, *[1] * (TOKENS - 2)])
    writer.add_token_merges([f"a {token[1]}" for token in tokens if len(token) == 2])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    shapes = {"token_embd": (TOKENS, WIDTH), "output_norm": (WIDTH,)}
    shapes |= {f"blk.0.attn_{part}": (WIDTH, WIDTH) for part in ("q", "k", "v", "output")}
    shapes |= {f"blk.0.{part}_norm": (WIDTH,) for part in ("attn", "ffn")}
    shapes |= {"blk.0.ffn_gate": (HIDDEN, WIDTH), "blk.0.ffn_up": (HIDDEN, WIDTH), "blk.0.ffn_down": (WIDTH, HIDDEN)}
    rng = numpy.random.default_rng(7)
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", rng.normal(size=shape).astype(numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


@pytest.mark.slow
def test_a_gguf_file_becomes_a_model_and_reports_its_bytes(
    gguf_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "a.duckdb"))
    monkeypatch.setenv("ANAMNESIS_MODELS", str(tmp_path / "models.toml"))
    (tmp_path / "models.toml").touch()
    reports: dict[str, list[tuple[int, int]]] = {}
    assert get(
        str(gguf_file), on_progress=lambda done, planned, step="": reports.setdefault(step, []).append((done, planned))
    )
    folder = tmp_path / "models" / "tiny"
    config = json.loads((folder / "config.json").read_text())
    assert (config["hidden_size"], config["vocab_size"], config["num_hidden_layers"]) == (WIDTH, TOKENS, 1)
    weights = 4 * (TOKENS * WIDTH + 4 * WIDTH * WIDTH + 3 * WIDTH * HIDDEN + 3 * WIDTH)
    assert list(reports) == ["Loading PyTorch", "Reading the model", "Converting", "Saving"]
    assert {planned for _, planned in reports["Converting"]} == {weights}
    assert reports["Converting"][0][0] == 0
    assert weights / 2 <= reports["Saving"][0][1] < weights, "bfloat16 has half the bytes of float32"
    reading = reports["Reading the model"]
    assert reading[-1][1] / 2 < reading[-1][0] <= reading[-1][1], "the bytes of the metadata, for each of its readers"
    for steps in reports.values():
        assert [done for done, _ in steps] == sorted(done for done, _ in steps)
