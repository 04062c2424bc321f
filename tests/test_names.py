"""Nothing knows a framework by name but its own folder."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

from core import paths
from core.frameworks.base import frameworks

NAMED = re.compile(r"craft-?md|automedic", re.IGNORECASE)
WORD = re.compile(r"CONSULTATION|Consultation\w+|consultation")
"""An identifier or a whole string: "consultation" is an English word, too."""


def test_no_file_names_a_framework_outside_of_its_folder() -> None:
    own = tuple(f"core/frameworks/{name}/" for name in frameworks())
    files = [path for room in ("core", "pages") for path in sorted((paths.ROOT / room).rglob("*.py"))]
    named = {
        place
        for path in [paths.ROOT / "app.py", *files]
        if not (place := path.relative_to(paths.ROOT).as_posix()).startswith(own) and _names_one(path)
    }
    assert not named


def _names_one(path: Path) -> bool:
    """Say whether a file names a framework: two of them anywhere, the third, an English word, in code alone."""
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
