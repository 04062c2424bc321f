"""Careless acts of researchers with the real commands: each is answered in a sentence, and no trial is lost.

Steps and facts are those of ``tests/support/careless.py``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from core.store.database import Store
from tests.support.careless import Step, done, files, outside, perform

pytestmark = pytest.mark.slow

KEY = "sk-live-0123456789abcdef"
IMPORT = "import cases {files}/toes.jsonl"
RUN = "run --doctor openai/gout --cases toes --arms vignette:mcq --trials 1 --limit 5 --concurrency 1"
PLAYED: tuple[Step, ...] = (IMPORT, RUN)
WRONG_TEXT, HALF_LIST, TWICE = "letter.docx", "half.jsonl", "twice.yaml"


def _files() -> None:
    """Write the wrong files next to the right ones."""
    (files() / WRONG_TEXT).write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600)
    whole = (files() / "toes.jsonl").read_text(encoding="utf-8")
    (files() / HALF_LIST).write_text(whole[: len(whole) // 2], encoding="utf-8")
    item = "  - {id: a, criterion: The doctor names gout, points: 5, axis: reasoning}\n"
    (files() / TWICE).write_text(f"title: Twice\nall:\n{item}{item}", encoding="utf-8")


class Act(NamedTuple):
    """A careless command after some steps: its status, what it says (patterns), and the trials that stay stored."""

    name: str
    does: tuple[Step, ...]
    command: str
    status: int
    says: tuple[str, ...]
    trials: int = 5


ACTS = (
    Act("an old Word file as cases", PLAYED, f"import cases {{files}}/{WRONG_TEXT}", 1, ("Word", "CSV")),
    Act("a list that was not downloaded whole", PLAYED, f"import cases {{files}}/{HALF_LIST}", 1, ("line", "JSON")),
    Act("the same run twice", PLAYED, RUN, 0, ("complete",), 10),
    Act("other cases under the same name", PLAYED, "import cases {files}/doubled.jsonl --name toes", 2, ("--replace",)),
    Act("a data set is deleted that a run has", PLAYED, "data delete toes --yes", 0, ("toes",)),
    Act("a data set that nobody imported", PLAYED, RUN.replace("toes", "toe"), 2, ("toe", "toes")),
    Act("an empty selection", PLAYED, RUN.replace("--cases toes", "--cases toes:Dentistry"), 2, ("Dentistry",)),
    Act("a case that does not exist", PLAYED, RUN.replace("--cases toes", "--cases toes:toe-99"), 2, ("toe-99",)),
    Act("no trials", PLAYED, RUN.replace("--trials 1", "--trials 0"), 2, ("trials", "1")),
    Act("negative trials", PLAYED, RUN.replace("--trials 1", "--trials -3"), 2, ("trials", "1")),
    Act("no cases", PLAYED, RUN.replace("--limit 5", "--limit 0"), 2, ("limit",)),
    Act("a budget of nothing", (IMPORT,), f"{RUN} --budget-usd 0", 2, ("budget",), 0),
    Act("a negative budget", (IMPORT,), f"{RUN} --budget-usd -1", 2, ("budget",), 0),
    Act("a budget that is no number", (IMPORT,), f"{RUN} --budget-usd nan", 2, ("budget",), 0),
    Act("a temperature of 37", PLAYED, f"{RUN} --temperature 37", 2, ("temperature",)),
    Act("a reply of no tokens", PLAYED, f"{RUN} --max-tokens 0", 2, ("max-tokens|max_tokens|token",)),
    Act("a model's name with a space", (), "models add 'my model' --address {here} --model m", 2, ("name|space",), 0),
    Act("a key in place of the model", (IMPORT,), RUN.replace("openai/gout", KEY), 2, ("model|provider",), 0),
    Act("a key as variable", (), f"models add own --address {{here}} --model m --key-env {KEY}", 2, ("variable",), 0),
    Act("a gate on a run that does not exist", PLAYED, "gate nothing --against nothing", 2, ("nothing",)),
    Act("a rubric with one id twice", PLAYED, f"rubrics import {{files}}/{TWICE}", 2, ("a\\b.*twice|twice.*a\\b",)),
    Act("a report of a renamed model", PLAYED, "report accuracy --models openai/gou", 2, ("did you mean openai/gout",)),
    Act("a patient of a word that is no trait", PLAYED, f"{RUN} --persona grumpyish", 2, ("grumpyish",)),
    Act("a prompt pack that does not exist", PLAYED, f"{RUN} --prompts mine", 2, ("mine",)),
    Act("a case set for an arm that it has not", PLAYED, f"{RUN} --arms vignette:mcq,dream:frq", 2, ("dream",)),
    Act("a run is deleted without its whole name", PLAYED, "delete 2 --yes", 0, ("Deleted|several|begin",), 0),
    Act("a backup over the database's own file", PLAYED, "restore {files}/toes.jsonl", 2, ("exists already",)),
)  # fmt: skip


def _kept(folder: Path) -> tuple[int, int]:
    """Return the status of ``verify`` and the number of stored trials."""
    status, _ = perform("verify")
    with Store().read() as cursor:
        return status, cursor.execute("SELECT count(*) FROM trials").fetchall()[0][0]


def test_careless_acts_are_answered_and_lose_nothing(tmp_path: Path) -> None:
    _files()
    wrong = []
    for number, act in enumerate(ACTS):
        folder = tmp_path / str(number)
        folder.mkdir()
        with outside(folder):
            done(act.does, folder)
            status, said = perform(act.command)
            missing = [pattern for pattern in act.says if not re.search(pattern, said, re.IGNORECASE)]
            kept = _kept(folder)
        if (status, missing, kept) != (act.status, [], (0, act.trials)) or "Traceback" in said or KEY in said:
            wrong.append(f"{act.name}: status {status}, kept {kept}, missing {missing}\n{said}")
    assert wrong == [], "\n\n".join(wrong)
