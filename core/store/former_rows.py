"""Rows of the tables of opinions that earlier versions had, as rows of ``judgements``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from core.store.review_records import parse_item

FormerRow = Mapping[str, Any]


def criterion_of(item: str) -> tuple[str, str] | None:
    """Return the conversation and the hash of a criterion, of an item of a review up to 0.6; ``None`` for others.

    Such an item was ``criterion:HASH:TRIAL``.
    """
    kind, _, rest = item.partition(":")
    criterion, _, trial = rest.partition(":")
    return (f"talk:{trial}", criterion) if kind == "criterion" and trial else None


def rubric_judgements(row: FormerRow) -> list[dict[str, Any]]:
    """Return a verdict on a criterion of a rubric; the version of the rubric is not stored any more."""
    return [
        _of_model(
            row,
            f"talk:{row['trial_id']}",
            f"rubric:{row['rubric']}",
            row["criterion"],
            at=row["judged_at"],
            against=row["criterion_hash"],
            judge_kind="rule" if row["model"] == "reference/words" else "model",
            together=row["batch"],
            repeat=row["repeat"] + 1,
            value="cannot judge" if row["verdict"] == "cannot be judged" else row["verdict"],
            void=row["voided"],
            quotations=row["quotations"],
            calls=orjson.loads(row["calls"]),
        )
    ]


def model_ratings(row: FormerRow) -> list[dict[str, Any]]:
    """Return the answer of a model that filled in the form of a review: all questions of an item in one request.

    The question of a reply that could not be read is empty.
    """
    quotations = [
        {"message": quoted["message"], "words": quoted["words"], "state": quoted["status"]}
        for quoted in orjson.loads(row["quotations"])
    ]
    return [
        _of_model(
            row,
            row["item"],
            row["form"],
            row["question"],
            at=row["rated_at"],
            value=row["value"],
            void=any(quoted["state"] == "unverified" for quoted in quotations),
            quotations=orjson.dumps(quotations).decode(),
        )
    ]


def urgency_answers(row: FormerRow) -> list[dict[str, Any]]:
    """Return the answer of a doctor's model on how soon the patient must be seen.

    The first words of ``failure`` name what failed, as they do in judgements (``core.errors.FailureKind``).
    """
    level = row["level"]
    return [
        _of_model(
            row,
            f"talk:{row['trial_id']}",
            "urgency_forced",
            "level",
            at=row["asked_at"],
            together=1,
            value=None if level is None else str(level),
            void=row["outcome"] == "invented quotation",
            quotations=f"[{row['quotation'] or ''}]",
            failure=row["failure"] or ("" if level is not None else row["outcome"]),
            served_by=row["served_by"] or "",
        )
    ]


def patient_judgements(row: FormerRow) -> list[dict[str, Any]]:
    """Return the medical terms of a conversation as the answer to the one question of the form ``patient_terms``."""
    terms = None if row["terms"] is None else orjson.loads(row["terms"])
    places = [
        {"message": term["turn"], "state": "verified", **{name: term[name] for name in ("words", "start", "end")}}
        for term in terms or ()
    ]
    value = None if terms is None else str(len(terms))
    return [_of_conversation(row, "patient_terms", "medical_terms", "", value, (*places, *_dropped(row)))]


def fact_judgements(row: FormerRow) -> list[dict[str, Any]]:
    """Return a judgement of each fact, and of what the patient invented.

    A fact without a topic is one of version 0.5, which said nothing about the facts that were not withheld: its
    question is the fact alone.
    """
    verdicts = None if row["verdicts"] is None else orjson.loads(row["verdicts"])
    invented = [
        {
            "message": verdict["turn"],
            "words": verdict["words"],
            "state": "verified",
            "comment": verdict.get("fact_text") or "",
        }
        for verdict in verdicts or ()
        if verdict["kind"] == "invented"
    ]
    value = None if verdicts is None else str(len(invented))
    rows = []
    for verdict in verdicts or ():
        if verdict["kind"] == "invented":
            continue
        topic = (verdict.get("topic") or "").replace(" ", "-")
        question = f"{topic}:{verdict['fact']}" if topic else str(verdict["fact"])
        # a withheld fact is quoted from the doctor's question, the message before the one that withholds it
        turn = verdict["turn"] if verdict["kind"] != "withheld" else verdict["turn"] - 1
        places = [] if turn is None else [{"message": turn, "words": verdict["words"], "state": "verified"}]
        rows.append(_of_conversation(row, "facts", question, row["facts_hash"], verdict["kind"], places))
    return [*rows, _of_conversation(row, "facts", "invented", row["facts_hash"], value, (*invented, *_dropped(row)))]


def answers_of_people(row: FormerRow) -> list[dict[str, Any]]:
    """Return an answer of a person. In a review its form is that of the review; other rows did not name their form.

    Columns of later versions may be missing.
    """
    review, item, question, against = row.get("review_id") or "", row["item"], row["question"], ""
    if criterion := criterion_of(item):
        item, against = criterion
        question = {"verdict": against, "evidence": f"{against}:words"}.get(question, question)
    outside = "answers" if item.startswith("answer:") else "conversations"
    quotations = [
        {
            "message": span["turn"],
            "words": span["text"],
            "state": "verified",
            "start": span["start"],
            "end": span["end"],
            **({"comment": span["comment"]} if span.get("comment") else {}),
        }
        for span in orjson.loads(row.get("spans") or "[]")
    ]
    return [
        _judgement(
            subject=item,
            form=outside if review in ("", "release", "imported") else "",
            question=question,
            against=against,
            judge=row["annotator"],
            judge_kind="person",
            value=row.get("value"),
            quotations=orjson.dumps(quotations).decode(),
            reason=row.get("reason") or "",
            comment=row.get("comment") or "",
            review_id=review,
            seconds=row.get("seconds"),
            judged_at=row["annotated_at"],
        )
    ]


def _dropped(row: FormerRow) -> list[dict[str, Any]]:
    """Return a place without words for each quotation that was in no message; earlier versions counted them only."""
    return [{"message": -1, "words": "", "state": "unverified"}] * int(row["dropped"])


def _of_conversation(
    row: FormerRow, form: str, question: str, against: str, value: str | None, quotations: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    return _of_model(
        row,
        f"talk:{row['trial_id']}",
        form,
        question,
        at=row["judged_at"],
        against=against,
        value=value,
        quotations=orjson.dumps(quotations).decode(),
        reason="",
        calls=orjson.loads(row["calls"]),
    )


def _of_model(row: FormerRow, subject: str, form: str, question: str, *, at: float, **fields: Any) -> dict[str, Any]:
    """Return the answer of a model or rule, which is deleted with the first trial of its subject."""
    trials = parse_item(subject).trials
    return _judgement(
        **{
            "trial_id": trials[0] if trials else "",
            "subject": subject,
            "form": form,
            "question": question,
            "judge": row["model"],
            "judge_kind": "model",
            "prompt_hash": row["prompt_hash"],
            "together": 0,
            "reason": row.get("reason", ""),
            "failure": row["failure"],
            "calls": row.get("call_ids") or [],
            "judged_at": at,
            **fields,
        }
    )


def _judgement(**fields: Any) -> dict[str, Any]:
    return {
        "trial_id": "",
        "against": "",
        "prompt_hash": "",
        "together": 1,
        "repeat": 1,
        "void": False,
        "reason": "",
        "comment": "",
        "failure": "",
        "calls": [],
        "review_id": "",
        "seconds": None,
        "served_by": "",
        **fields,
    }
