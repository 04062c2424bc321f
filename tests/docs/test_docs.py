"""README and docs are true: commands run, links, pictures and paths exist, and the layout is that of the checkout."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from core.cli.app import app
from core.datasets.readers.engine import FORMATS
from core.judging.patient_rule import ABOUT
from core.models.settings import SHIPPED, read_settings
from core.store.database import Store
from core.text.patient_terms import lexicon
from tests.docs.pages_of_docs import PAGES, ROOT, blocks, run_page

NAMES = {page.relative_to(ROOT).as_posix(): page for page in PAGES}
GUIDE = "docs/how-to-add.md"
TRIED = [
    name
    for name, page in NAMES.items()
    if name != GUIDE and any(block.commands and not block.not_run for block in blocks(page))
]
_LINK = re.compile(r"(!?)\[[^\]]*\]\(([^)\s]+)\)")
_PATH = re.compile(r"`((?:core|pages|data|prompts|tests|docs|benchmarks)/[\w./-]+)`")
_MADE = ("data/local", "data/models.local.toml")
"""Paths that are created on the user's machine."""


def commands(group: Any, context: Any, path: str = "python -m core") -> Iterator[tuple[str, Any, Any]]:
    """Yield every command with its full name and its context."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if hasattr(command, "list_commands"):
            yield from commands(command, typer.Context(command, parent=context, info_name=name), f"{path} {name}")
        else:
            yield f"{path} {name}", command, context


@functools.cache
def root_command() -> Any:
    return typer.main.get_command(app)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder with a separate database, without keys, models or extensions of the user."""
    for name in list(os.environ):
        if name.endswith("_API_KEY") or name.startswith(("ANAMNESIS_", "OPENAI_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "own" / "a.duckdb"))
    (tmp_path / "models.local.toml").touch()
    monkeypatch.setenv("ANAMNESIS_MODELS", str(tmp_path / "models.local.toml"))
    # as where the environment is active: another `python3` may be a script that looks for one, which takes its time
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PWD", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prompts").symlink_to(ROOT / "prompts")
    return tmp_path


@pytest.mark.slow
@pytest.mark.timeout(900)  # some 60 seconds of one core on the longest page
@pytest.mark.parametrize("name", TRIED)
def test_the_commands_of_a_page_run_in_order(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = run_page(NAMES[name])
    assert status == 0, "".join(capsys.readouterr())[-3000:]


@pytest.mark.slow
def test_the_examples_of_how_to_add_are_used_as_an_extension(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a child process, since extensions are loaded at the start of the program."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.docs.pages_of_docs", str(NAMES[GUIDE])],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}{done.stderr[-3000:]}"
    assert re.search(r"reference/list +count +3\.000", done.stdout), "the measure counts three questions"
    monkeypatch.setenv("ANAMNESIS_EXTENSIONS", str(folder / "extensions"))

    from streamlit.testing.v1 import AppTest

    from tests.support.pages import visit

    page = visit(AppTest.from_file(str(ROOT / "app.py"), default_timeout=60), "workload").run()
    assert not page.exception
    assert page.dataframe[0].value["conversations"].sum() == 4, "three of the framework's, one under other prompts"


def test_commands_that_are_not_run_are_valid() -> None:
    """The command line parses their names, options and choices; nothing is started."""
    faults = []
    for name, page in NAMES.items():
        for words in (words for block in blocks(page) if block.not_run for words in block.commands):
            try:
                parse(words)
            except Exception as error:
                faults.append(f"{name}: {' '.join(words)}: {error}")
    assert faults == []


def parse(words: list[str]) -> None:
    """Parse the words of a command; raise the error of the command line if they are not valid."""
    command: Any = root_command()
    context: Any = typer.Context(command, info_name="python -m core")
    while hasattr(command, "list_commands"):
        context.meta["arguments"] = words[1:]
        subcommand = command.get_command(context, words[0])
        assert subcommand is not None, f"there is no command {words[0]}"
        command, words = subcommand, words[1:]
        if hasattr(command, "list_commands"):
            context = typer.Context(command, parent=context, info_name=words[0])
    command.make_context("python -m core", words, parent=context)


def test_a_misspelt_option_is_noticed() -> None:
    with pytest.raises(Exception, match="No such option"):
        parse(["run", "--doctor", "openai/gpt-4o", "--trails", "5"])


def test_every_command_is_on_the_page_of_the_command_line() -> None:
    documented = {" ".join(words) for block in blocks(NAMES["docs/command-line.md"]) for words in block.commands}
    lacking = [
        path
        for path, command, _ in commands(root_command(), typer.Context(root_command(), info_name="python -m core"))
        if not command.hidden
        and not any(f"{line} ".startswith(path.removeprefix("python -m core ") + " ") for line in documented)
    ]
    assert not lacking


def test_links_and_pictures_exist() -> None:
    broken = []
    for name, page in NAMES.items():
        for _, target in _LINK.findall(page.read_text(encoding="utf-8")):
            if target.startswith(("http://", "https://", "mailto:")):
                continue
            file, _, anchor = target.partition("#")
            place = page.parent / file if file else page
            if not place.exists() or (anchor and anchor not in anchors(place)):
                broken.append((name, target))
    assert not broken


def test_every_picture_is_shown_on_a_page() -> None:
    linked = {Path(target).name for page in PAGES for _, target in _LINK.findall(page.read_text(encoding="utf-8"))}
    assert not {picture.name for picture in (ROOT / "docs").glob("*.png")} - linked


def anchors(page: Path) -> set[str]:
    """Return the headings of a page as the anchors of links."""
    titles = re.findall(r"^#+ +(.+)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def test_paths_that_are_named_exist() -> None:
    named = {
        (name, path.rstrip("/."))
        for name, page in NAMES.items()
        for path in _PATH.findall(page.read_text(encoding="utf-8"))
        if not re.search(r"[A-Z]{3}", path)  # a placeholder, as in `data/NAME.jsonl`
    }
    assert not {(name, path) for name, path in named if not (ROOT / path).exists() and not path.startswith(_MADE)}


def test_readme_links_to_every_page_of_docs() -> None:
    linked = {target for _, target in _LINK.findall((ROOT / "README.md").read_text(encoding="utf-8"))}
    assert not {f"docs/{page.name}" for page in PAGES if page.parent == ROOT / "docs"} - linked


def test_the_terms_of_the_glossary_are_unique_and_sorted() -> None:
    text = NAMES["docs/glossary.md"].read_text(encoding="utf-8")
    terms = [term.lower() for term in re.findall(r"^\*\*(.+?)\*\*", text, re.M)]
    assert len(terms) >= 40
    assert terms == sorted(set(terms))


def test_every_format_and_table_is_on_the_page_of_data(folder: Path) -> None:
    documented = set(re.findall(r"`([\w-]+)`", NAMES["docs/data-formats.md"].read_text(encoding="utf-8")))
    assert not set(FORMATS) - documented
    with Store().read() as cursor:
        tables = {name for (name,) in cursor.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    assert tables
    assert not tables - documented


def test_the_documented_precision_of_rules_is_that_of_the_program() -> None:
    lines = NAMES["docs/reliability.md"].read_text(encoding="utf-8").splitlines()
    for kind, about in ABOUT.items():
        samples = (about.first, about.second, about.third)
        cells = [f"{right} of {read}" for right, read in filter(None, samples)] or ["none to read"] * 3
        assert any(line.startswith(f"| `{kind}` | {' | '.join(cells)} |") for line in lines), kind
    assert f"({len(lexicon().terms)} terms)" in "\n".join(lines)


def test_the_examples_of_a_models_file_are_read(tmp_path: Path) -> None:
    examples = [block.text for block in blocks(NAMES["docs/models.md"]) if block.language == "toml"]
    assert len(examples) == 3
    for n, text in enumerate(examples):
        own = tmp_path / f"{n}.toml"
        own.write_text(text)
        assert read_settings([SHIPPED, own]).models


def test_the_layout_in_readme_is_that_of_the_checkout() -> None:
    documented = {folder: set(names) for folder, names in layout().items()}
    assert documented[""] == entries_of(ROOT), "top level"
    assert {name.removesuffix("/") for name in documented["pages/"]} == {
        path.stem for path in (ROOT / "pages").iterdir() if path.suffix == ".py" or any(path.glob("*.py"))
    } - {"__init__"}, "pages/: a page is a file or a folder"
    packages = {f"{path.parent.name}/" for path in (ROOT / "core").glob("*/__init__.py")}
    assert {name for name in documented["core/"] if name.endswith("/")} == packages, "core/"
    assert all((ROOT / "core" / name).exists() for name in documented["core/"])
    for folder in ("prompts/", "data/", "tests/"):
        assert {name for name in documented[folder] if name.endswith("/")} == {
            name for name in entries_of(ROOT / folder) if name.endswith("/")
        } - {"local/"}, folder


def layout() -> dict[str, list[str]]:
    """Return folder → its entries in the tree of README; a description follows after at least two blanks."""
    (tree,) = [block.text for block in blocks(ROOT / "README.md") if block.text.startswith("app.py")]
    folders: dict[str, list[str]] = {}
    inside = ""
    for line in tree.splitlines():
        names = re.split(r"\s{2,}", line.strip())[0].split()
        if not line.startswith(" "):
            inside = ""
        folders.setdefault(inside, []).extend(names)
        if not line.startswith(" ") and len(names) == 1 and names[0].endswith("/"):
            inside = names[0]
    return folders


def entries_of(folder: Path) -> set[str]:
    """Return the entries of a folder of the checkout, folders with a slash, without those of git and tools."""
    ignored = {line.strip("/\n") for line in (ROOT / ".gitignore").read_text().splitlines()}
    return {
        f"{path.name}/" if path.is_dir() else path.name
        for path in folder.iterdir()
        if not path.name.startswith((".", "__")) and path.name not in ignored
    }
