"""YAML by unknown authors: every scalar is a text, and what is not plain data is refused with its file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from core.errors import UsageError
from core.judging.form import read_form
from core.judging.rubric import read_rubric
from core.prompts import read_prompt
from core.yaml_text import MOST_BYTES, read_yaml

REFUSED = {
    "alias": "a: &x [1, 2]\nb: *x",
    "merge key": "a: &x {b: c}\nd:\n  <<: *x",
    "merge of fields": "<<: {a: b}",
    "key twice": "a: 1\na: 2",
    "key twice inside": "a:\n  b: 1\n  'b': 2",
    "lone surrogate": 'a: "\\ud800"',
    "nesting": "[" * 10_000 + "]" * 10_000,
    "nesting of mappings": "".join(f"{' ' * depth}a:\n" for depth in range(3_000)),
    "tag": "a: !!python/object/apply:os.system [true]",
    "bytes": "a: !!binary aGk=",
    "key that is a list": "? [a]\n: b",
    "two documents": "a: 1\n---\nb: 2",
    "not closed": "a: {b",
    "control character": "a: \x00",
    "values": "a: [" + "{}," * 30_000 + "]",
    "size": "a: " + "b" * MOST_BYTES,
}


def test_what_is_no_plain_data_is_refused_by_every_reader_with_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.yaml_text.MOST_NODES", 20_000)  # half a million empty mappings take 93 MB and 5 s
    read, unnamed = [], list[tuple[str, str]]()
    for name, text in REFUSED.items():
        path = tmp_path / f"{name}.yaml"
        path.write_text(text, encoding="utf-8")
        prompt = tmp_path / f"{name}.md"
        prompt.write_text(f"---\nrole: doctor\n{text}\n---\nHi", encoding="utf-8")
        readers: list[tuple[Callable[[Path], object], Path]] = [
            (read_rubric, path), (read_form, path), (read_prompt, prompt),
        ]  # fmt: skip
        for reader, file in readers:
            try:
                reader(file)
                read.append((name, reader))
            except UsageError as error:
                unnamed += [] if str(file) in str(error) else [(name, str(error)[:200])]
    assert (read, unnamed) == ([("two documents", read_prompt)], [])  # the first --- ends the header


def test_scalars_are_texts_also_those_that_look_like_numbers_and_dates() -> None:
    text = "id: 1e5\nanswer: no\nday: 2024-99-99\nvalue: .nan\nnothing:\nlines: |\n  a\n  b\nlist: [1, {x: ~}]\n"
    assert read_yaml(text, "here") == {
        "id": "1e5", "answer": "no", "day": "2024-99-99", "value": ".nan", "nothing": "", "lines": "a\nb\n",
        "list": ["1", {"x": "~"}],
    }  # fmt: skip


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rubric.yaml"
    path.write_bytes(b"title: \xff")
    with pytest.raises(UsageError, match=r"rubric\.yaml"):
        read_rubric(path)
