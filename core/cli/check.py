"""``check``: checks the set-up (keys, endpoints, database, versions); ``check cases`` finds faults in cases."""

from __future__ import annotations

import importlib.metadata
import os
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Annotated
from urllib.parse import urlsplit

import typer

from core import __version__
from core.case import ASKS_FOR
from core.datasets.lint import lint
from core.datasets.select import cases_of, datasets, select
from core.errors import AnamnesisError
from core.frameworks.base import default_pack
from core.knowledge.base import knowledge
from core.models.registry import Registry, load_registry
from core.store.database import Store
from core.store.queries.runs import runs
from core.text.questions import question_kind

app = typer.Typer(help="Check the set-up, or cases.", rich_markup_mode=None)

CheckLine = tuple[str, bool, str]
"""The part that was checked, whether it is in order, and its state in words."""

_PACKAGES = ("streamlit", "duckdb", "plotly", "pandas", "openai", "transformers", "torch")
_REACH_S = 1.0


@app.callback(invoke_without_command=True)
def check(context: typer.Context) -> int:
    """Check the set-up: versions, database, prompts, keys (never shown), servers on this machine."""
    if context.invoked_subcommand is not None:
        return 0
    lines = [*_check_lines(), *_providers(load_registry())]
    for name, good, words in lines:
        print(f"{'ok' if good else '--'}  {name:<14} {words}")
    # a provider without a key is not a fault: the reference cast needs none
    return 0 if all(good for name, good, _ in lines if not name.startswith("key")) else 1


@app.command("cases")
def check_cases(
    selection: Annotated[
        str | None, typer.Argument(metavar="[DATASET]", help="DATASET or DATASET:SPECIALTY; every data set otherwise.")
    ] = None,
) -> int:
    """Find faults in cases: leaked answers, answers that are no choice, duplicates, missing parts."""
    severe = 0
    for name in [selection] if selection else datasets():
        cases = select(name)
        # only the built-in cases guarantee that the reference doctor knows every choice
        findings = lint(cases, knowledge() if name.partition(":")[0] == "library" else None)
        for finding in findings:
            print(f"{'fault' if finding.severe else 'note '}  {finding.case_key}: {finding.message}.")
        severe += sum(finding.severe for finding in findings)
        kinds = Counter(question_kind(case) for case in cases)
        print(f"{name} asks for: {', '.join(f'{kind} {kinds[kind]}' for kind in ASKS_FOR if kinds[kind])}.")
        print(f"{name}: {len(cases)} cases, {len(findings)} remarks.")
    return 1 if severe else 0


def _check_lines() -> Iterator[CheckLine]:
    yield "anamnesis", True, __version__
    yield "python", sys.version_info >= (3, 11), ".".join(str(part) for part in sys.version_info[:3])
    for package in _PACKAGES:
        try:
            yield package, True, importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            yield package, False, "is not installed: run make run once, or pip install -r requirements.txt"
    checks: dict[str, Callable[[], str]] = {"database": _database, "prompts": _prompts, "cases": _library}
    for name, check_part in checks.items():
        try:
            yield name, True, check_part()
        except AnamnesisError as error:
            yield name, False, str(error)


def _database() -> str:
    store = Store()
    with store.read() as cursor:
        return f"{store.path} ({len(runs(cursor))} runs)"


def _prompts() -> str:
    pack = default_pack()
    return f"{pack.name} {pack.hash}"


def _library() -> str:
    sizes = ", ".join(f"{name} {len(cases_of(name))}" for name in datasets())
    return f"{sizes}; {len(knowledge().diseases)} diseases"


def _providers(registry: Registry) -> Iterator[CheckLine]:
    seen: set[str] = set()
    for spec in registry.specs():
        if not spec.api_key_env or spec.api_key_env in seen:
            continue
        seen.add(spec.api_key_env)
        missing = registry.missing_key(spec.name)
        yield f"key {spec.provider}", missing is None, f"{spec.api_key_env} is {'not ' if missing else ''}set"
    address = os.environ.get("OPENAI_BASE_URL")
    if address:
        answers = _answers(address)
        yield "server", answers, f"{address} {'answers' if answers else 'does not answer'}"


def _answers(address: str) -> bool:
    parts = urlsplit(address)
    try:
        with socket.create_connection((parts.hostname or "", parts.port or 443), timeout=_REACH_S):
            return True
    except OSError:
        return False
