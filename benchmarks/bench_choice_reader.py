"""How well the strict rule reads multiple-choice responses: precision and recall by kind, and time a response.

The 150 responses of tests/core/agents/choice_responses.json were written with their right readings by a person who
had not seen the reader. The first version had precision .833 and recall .860 on them; general faults were mended since,
so the present figures are no longer those of unseen responses.
Precision: of the readings that name one choice, the share that are right. Recall: of the responses that state one
choice, the share that are read right.

    .venv/bin/python benchmarks/bench_choice_reader.py [--wrong]
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from common import ROOT, median_s, table

from core.agents.mcq import STRICT_VERSION, named_choices

RESPONSES = ROOT / "tests" / "core" / "agents" / "choice_responses.json"
ALL = "all"
Reader = Callable[[str, Sequence[str]], list[str]]


class Read(NamedTuple):
    """A response with its right reading and the rule's: a choice, ``multiple`` or ``none``."""

    kind: str
    response: str
    meant: str
    read: str

    @property
    def outcome(self) -> tuple[str, str]:
        """Right reading and the rule's, a choice as ``one``; a wrong choice as ``other``."""
        meant, read = (text if text in ("multiple", "none") else "one" for text in (self.meant, self.read))
        return meant, "other" if (meant, read) == ("one", "one") and self.meant != self.read else read


class Quality(NamedTuple):
    """Of ``stated`` responses with one choice, ``right`` were read right; ``naming`` readings name one choice."""

    responses: int
    stated: int
    naming: int
    right: int
    agreeing: int

    @property
    def precision(self) -> float:
        """Share of right readings among those that name one choice."""
        return self.right / self.naming if self.naming else 1.0

    @property
    def recall(self) -> float:
        """Of responses that state one choice, the share that are read right."""
        return self.right / self.stated if self.stated else 1.0


def read_all(reader: Reader = named_choices, path: Path = RESPONSES) -> list[Read]:
    reads = []
    for row in json.loads(path.read_text(encoding="utf-8"))["responses"]:
        choices = reader(row["response"], row["choices"])
        read = choices[0] if len(choices) == 1 else "multiple" if choices else "none"
        reads.append(Read(row["kind"], row["response"], row["reading"], read))
    return reads


def quality(reads: Sequence[Read]) -> Quality:
    outcomes = Counter(read.outcome for read in reads)
    stated = sum(n for (meant, _), n in outcomes.items() if meant == "one")
    naming = sum(n for (_, read), n in outcomes.items() if read in ("one", "other"))
    return Quality(len(reads), stated, naming, outcomes["one", "one"], sum(r.meant == r.read for r in reads))


def by_kind(reads: Sequence[Read]) -> dict[str, Quality]:
    """Return the quality for each kind of response, and for ``all``."""
    kinds = sorted({read.kind for read in reads})
    return {kind: quality([read for read in reads if read.kind == kind]) for kind in kinds} | {ALL: quality(reads)}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--wrong", action="store_true", help="show the responses that are read wrong")
    wrong = options.parse_args().wrong
    reads = read_all()
    rows = [
        (
            kind,
            str(q.responses),
            f"{q.right}/{q.naming}",
            f"{q.precision:.3f}",
            f"{q.right}/{q.stated}",
            f"{q.recall:.3f}",
            f"{q.agreeing / q.responses:.3f}",
        )
        for kind, q in by_kind(reads).items()
    ]
    title = f"{len(reads)} responses, strict rule version {STRICT_VERSION}"
    table(title, ("kind", "responses", "right/named", "precision", "right/stated", "recall", "agreement"), rows)
    counts = Counter(read.outcome for read in reads)
    heads = ("one", "other", "multiple", "none")
    confusion = [(meant, *(str(counts[meant, read]) for read in heads)) for meant in ("one", "multiple", "none")]
    table(
        "Right reading (rows) and the rule's",
        ("", "that choice / one", "another choice", "multiple", "none"),
        confusion,
    )
    cases = [
        (row["response"], row["choices"]) for row in json.loads(RESPONSES.read_text(encoding="utf-8"))["responses"]
    ]
    seconds = median_s(lambda: [named_choices(response, choices) for response, choices in cases])
    print(
        f"\n{seconds / len(cases) * 1e6:.0f} µs a response of {sum(len(r) for r, _ in cases) // len(cases)} characters"
    )
    for read in reads if wrong else ():
        if read.meant != read.read:
            print(f"\n[{read.kind}] meant {read.meant!r}, read {read.read!r}:\n{read.response}")


if __name__ == "__main__":
    main()
