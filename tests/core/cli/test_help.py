"""The list of commands is shown without the commands being imported, and says of each what its own help says."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from core import paths
from core.cli.app import COMMANDS, app
from core.frameworks.base import framework

HEAVY = ("pandas", "numpy", "duckdb", "aiohttp", "core.cli.options", "core.frameworks.base", "core.store.database")


def test_each_line_is_the_first_of_the_commands_own_help() -> None:
    group: Any = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    context = group.make_context("python -m core", ["runs"])
    own = {name: (group.get_command(context, name).help or "").splitlines()[0] for name in COMMANDS}
    own["run"] = own["run"].replace(f" of {framework().title}", "")  # the help of `run` is that of one framework
    assert {name: line for name, (_, line) in COMMANDS.items()} == own


def test_the_list_of_commands_imports_none_of_them() -> None:
    code = (
        "import contextlib, io, sys\n"
        "from core.cli.app import main\n"
        "with contextlib.redirect_stdout(io.StringIO()) as out:\n"
        "    main(['--help'])\n"
        f"print(*[name for name in {HEAVY} if name in sys.modules])\n"
        f"print(*[name for name in {tuple(COMMANDS)} if f'  {{name}} ' not in out.getvalue()])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=paths.ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
