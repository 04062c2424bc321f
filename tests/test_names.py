"""Only a framework's own folder contains its name, and every module named in a text exists."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from core import paths
from core.frameworks.base import frameworks

NAMED = re.compile(r"craft-?md|automedic", re.IGNORECASE)
WORD = re.compile(r"CONSULTATION|Consultation\w+|consultation")
"""An identifier or a whole string: "consultation" is an English word, too."""

DOTTED = re.compile(r"(?<![\w./-])(?:core|pages|benchmarks)(?:\.[a-z_]\w*)+(?:\.\w+)*")
"""The dotted name of a module, or of something in it."""


@pytest.mark.slow
def test_every_dotted_name_in_comments_docstrings_and_docs_exists() -> None:
    code = [path for room in ("core", "pages", "benchmarks") for path in (paths.ROOT / room).rglob("*.py")]
    docs = [*paths.ROOT.glob("*.md"), *(paths.ROOT / "docs").rglob("*.md"), *(paths.ROOT / "benchmarks").glob("*.md")]
    missing = {
        f"{path.relative_to(paths.ROOT)}: {name}"
        for path in [paths.ROOT / "app.py", *code, *docs]
        for text in _texts(path)
        for name in DOTTED.findall(text)
        if not _exists(name)
    }
    assert not missing


def _texts(path: Path) -> Iterator[str]:
    """Yield the text of a page, or the comments and strings of a module."""
    source = path.read_text()
    if path.suffix == ".md":
        yield source
    elif DOTTED.search(source):
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type in (tokenize.COMMENT, tokenize.STRING):
                yield token.string


def _exists(name: str) -> bool:
    """Say whether a dotted name is a module, or an attribute or field of something in one."""
    parts = name.split(".")
    for length in range(len(parts), 1, -1):
        try:
            spec = importlib.util.find_spec(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        if spec is not None:
            break
    else:
        return False
    if length == len(parts):
        return True
    owner = importlib.import_module(".".join(parts[:length]))
    for attribute in parts[length:-1]:
        if not hasattr(owner, attribute):
            return False
        owner = getattr(owner, attribute)
    # dataclass fields without a default are annotations only
    return hasattr(owner, parts[-1]) or parts[-1] in getattr(owner, "__annotations__", {})


def test_no_file_names_a_framework_outside_of_its_folder() -> None:
    own = tuple(f"core/frameworks/{name}/" for name in frameworks())
    files = [path for room in ("core", "pages") for path in sorted((paths.ROOT / room).rglob("*.py"))]
    files_with_a_name = {
        place
        for path in [paths.ROOT / "app.py", *files]
        if not (place := path.relative_to(paths.ROOT).as_posix()).startswith(own) and _names_one(path)
    }
    assert not files_with_a_name


def _names_one(path: Path) -> bool:
    """Return whether a file names a framework; "consultation", an English word, counts in code only."""
    source = path.read_text()
    if NAMED.search(source):
        return True
    if "consultation" not in source.lower():
        return False
    texts = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and token.start[0] in texts):
            continue
        if WORD.fullmatch(token.string.strip("\"'")):
            return True
    return False


def test_every_test_file_has_a_name_of_its_own() -> None:
    # pytest imports test files of folders without __init__.py by their bare names
    names = Counter(path.name for path in (paths.ROOT / "tests").rglob("test_*.py"))
    assert [name for name, number in names.items() if number > 1] == []
