"""``report patients``: what simulated patients do wrong, how often, where, and the rule beside experts and models."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any, Literal

import typer

from core.cli.comparisons import Models, Printed
from core.cli.folded import folded_store, run_id_of
from core.cli.report_failures import Runs, counting, model_names, print_rows
from core.errors import AnamnesisError
from core.measures.patients.experts import PAPER, TermsAgreement, terms_against_experts
from core.measures.patients.figures import By, PatientRate, hit_sample, patient_hits, patient_rates
from core.measures.patients.judged_figures import JudgeAgreement, judge_against_rule
from core.measures.patients.kinds import ABOUT
from core.measures.patients.marking import mark_patients
from core.store.database import Store
from core.store.queries.patients import KINDS, Hit, Kind
from core.store.selection import Selection

Part = Literal["rates", "hits", "sample", "experts", "judge"]
Row = dict[str, Any]


def report_patients(
    part: Annotated[
        Part, typer.Option(help="Rates, the hits, a random sample of them, or the rule beside experts or a model.")
    ] = "rates",
    by: Annotated[By, typer.Option(help="Group rates by this; plain patients and personas always apart.")] = "patient",
    kind: Annotated[Kind | None, typer.Option(help="Only this kind of hit.")] = None,
    run: Runs = None, models: Models = None,
    pool: Annotated[bool, typer.Option("--pool", help="Pool the conditions of a group, and say how many.")] = False,
    words: Annotated[str | None, typer.Option(help="Only hits with this in their words.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many hits to print, of each kind.")] = 20,
    seed: Annotated[int, typer.Option(help="Of the random sample.")] = 20,
    format_: Printed = "table",
) -> int:  # fmt: skip
    """Report medical terms, leaks, refusals, role confusion of simulated patients."""
    store = folded_store()
    if part == "experts":
        print_rows([_experts_row(one) for one in terms_against_experts(store)], format_)
        print(f"The paper counts {PAPER[0]} of {PAPER[1]} ({PAPER[0] / PAPER[1]:.2%}).", file=sys.stderr)
        return 0
    wanted = Selection(runs=[run_id_of(store, name) for name in run] if run else None, models=model_names(models))
    with counting("conversations") as show:
        mark_patients(store, wanted, on_progress=show)
    if part == "judge":
        print_rows([_judge_row(one) for one in _judged(store, wanted)], format_)
        return 0
    kinds: list[Kind] = [kind] if kind else list(KINDS)
    parts: dict[str, Callable[[], list[Row]]] = {
        "rates": lambda: [_rate_row(row, by) for row in patient_rates(store, by, wanted, kinds, pooled=pool)],
        "hits": lambda: [
            _hit_row(hit) for one in kinds for hit in patient_hits(store, one, wanted, words=words, limit=limit)[1]
        ],
        "sample": lambda: [_hit_row(hit) for one in kinds for hit in hit_sample(store, one, limit, seed, wanted)],
    }
    rows = parts[part]()
    if not rows:
        raise AnamnesisError(
            "There is nothing to report: no conversation is stored that fits, or no hit of this kind. Start with "
            "`python -m core run --doctor reference/bayes`, or choose another --kind, --run or --models."
        )
    print_rows(rows, format_)
    return 0


def _judged(store: Store, wanted: Selection) -> list[JudgeAgreement]:
    found = judge_against_rule(store, wanted)
    if not found:
        raise AnamnesisError(
            "No model has judged these conversations: run `python -m core judge-patients --model M` first, or choose "
            "another --run or --models."
        )
    return found


def _rate_row(row: PatientRate, by: By) -> Row:
    about = ABOUT[row.kind]
    figures: Row = {
        "rate": row.rate, "ci_low": row.interval.low, "ci_high": row.interval.high, "with_hit": row.n_hit, "n": row.n,
        "cases": row.cases, "hits": row.hits, "replies": row.replies, "per_100": row.per_100,
        "per_100_low": row.per_100_interval.low, "per_100_high": row.per_100_interval.high,
    }  # fmt: skip
    if not about.claimed:  # the hits are there to be read; a rate would claim that they are right
        figures |= dict.fromkeys(("rate", "ci_low", "ci_high", "per_100", "per_100_low", "per_100_high"))
    right, read = about.read
    place = {by: row.group, "condition": row.condition, "persona": row.persona or "plain", "protocol": row.protocol,
             "kind": row.kind}  # fmt: skip
    return {**place, **figures, "read_right": right, "read": read}


def _hit_row(hit: Hit) -> Row:
    return {
        "kind": hit.mark.kind, "words": hit.mark.words, "detail": hit.mark.detail, "reply": hit.text,
        "question": hit.question, "trial": hit.trial_id, "turn": hit.mark.turn, "case": hit.case_key,
        "doctor": hit.doctor, "patient": hit.patient,
    }  # fmt: skip


def _experts_row(one: TermsAgreement) -> Row:
    return {
        "model": one.model, "n": one.n, "experts": one.experts, "experts_low": one.experts_interval.low,
        "experts_high": one.experts_interval.high, "rule": one.rule, "rule_low": one.rule_interval.low,
        "rule_high": one.rule_interval.high, "precision": one.precision, "precision_low": one.precision_interval.low,
        "precision_high": one.precision_interval.high, "recall": one.recall, "recall_low": one.recall_interval.low,
        "recall_high": one.recall_interval.high, "kappa": one.kappa, "both": one.both, "rule_only": one.rule_only,
        "experts_only": one.experts_only, "neither": one.neither, "no_text": one.unmatched,
    }  # fmt: skip


def _judge_row(one: JudgeAgreement) -> Row:
    return {
        "judge": one.model, "prompts": one.prompt_hash, "n": one.n, "cases": one.cases, "judge_share": one.judge,
        "judge_low": one.judge_interval.low, "judge_high": one.judge_interval.high, "rule_share": one.rule,
        "rule_low": one.rule_interval.low, "rule_high": one.rule_interval.high, "both": one.both,
        "judge_only": one.judge_only, "rule_only": one.rule_only, "neither": one.neither, "agreement": one.agreement,
        "kappa": one.kappa, "dropped": one.dropped, "failed": one.failed,
    }  # fmt: skip
