"""``report judge_check``: how judges answer about edited conversations, without labels by people."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from typing import Annotated

from core.frameworks.starts import CAMPAIGN
from core.judging.check import (
    CHECK_KINDS,
    FAILED,
    MOST_FAILURES,
    PREFIX,
    WRONG_EXPECTATIONS,
    check_results,
    failing_questions,
)
from core.measures.base import Columns, MetricRequest, Row, Section, metric
from core.stats.intervals import wilson
from core.store.queries.judgements import judged_forms, judgements

_WORDS = {
    "evidence": "without the quoted words, yes stays yes",
    "other case": "about another case, yes stays yes",
    "wording": "a harmless change of words changes the answer",
    "repeat": "asked again, the answer changes",
    "length": "with the doctor's messages twice as long, the answer changes",
}


@metric(
    "judge_check",
    "run",
    "models",
    "source",
    "datasets",
    "specialties",
    empty="No judge was shown edited conversations.",
    starts=(CAMPAIGN,),
    compared=False,
    noted=False,
    page="trust",
)
def report(
    request: MetricRequest, form: Annotated[str, "Only checks of this form, or rubric:NAME."] = ""
) -> Iterator[Row]:
    """Report by judge, question and kind of check the share of answers that do not behave as they must."""
    with request.store.read() as cursor:
        names = [name for name in judged_forms(cursor, checks=True) if form in ("", name.removeprefix(PREFIX))]
        stored = judgements(cursor, names, selection=request.selection) if names else []
    failing = failing_questions(stored)
    by = attrgetter("judge", "form", "question")
    results = sorted(check_results(stored), key=lambda r: (by(r.judgement), CHECK_KINDS.index(r.kind)))
    for ((judge, name, question), kind), group in groupby(results, key=lambda r: (by(r.judgement), r.kind)):
        of_question = list(group)
        newest = max(of_question, key=lambda result: result.judgement.at).question_hash
        values = [result.judgement.value for result in of_question if result.question_hash == newest]
        failed = [value == FAILED for value in values if value is not None]
        yield Row(
            {
                "judge": judge.name,
                "prompts": judge.prompt_hash[:6],
                "form": name.removeprefix(PREFIX),
                "question": question,
                "check": kind,
            },
            sum(failed) / len(failed) if failed else None,
            *wilson(sum(failed), len(failed)),
            len(failed),
            {"no answer": len(values) - len(failed)},
            {"failure": _WORDS[kind], "in_headline": (judge, newest) not in failing},
            unit="pairs",
            columns=Columns("failed", n="n_pairs", excluded="excluded"),
        )
    if results:
        wrong, read = (sum(counts) for counts in zip(*WRONG_EXPECTATIONS.values(), strict=True))
        low, high = wilson(wrong, read)
        request.note(
            f"A question leaves the headline if the whole interval of its failures is above {MOST_FAILURES:.0%}. "
            f"Of {read} edited pairs that were read by hand, {wrong} have a right answer that does not behave as the "
            f"check expects ({wrong / read:.0%}, {low:.0%} to {high:.0%}): so many failures are not the judge's.",
            kind="judge",
        )


SECTIONS = (CHECKS,) = (
    Section(
        "How judges answer about edited conversations",
        report,
        kind="dots",
        series="judge",
        place="question",
        panel="check",
        axis="Answers that do not behave as they must",
        words={
            "evidence": "Quoted words removed",
            "other case": "About another case",
            "wording": "Wording changed",
            "repeat": "Asked again",
            "length": "Longer messages",
        },
        heads={"form": "Form", "failure": "What fails", "n_pairs": "Pairs", "in_headline": "Counts in figures"},
        help="Each pair is a conversation and its edited copy. A question counts in no figure if it fails too often. "
        "Wilson’s 95 % intervals.",
        page="trust",
    ),
)
