"""What the patient said that no fact of the case supports.

Rules. A statement is invented where it contradicts a fact; where the case lacks more of its clinical words than it
holds (words of data/knowledge and of the list of claims; ordinary words never count); where it gives an illness to the
patient that the case gives to a relative; or where it gives a time, an age or a weight that is nowhere in the case
though the question asked for one. A plain denial of something on which the case is silent is invented too, and is
told apart by ``denial``: harmless more often than not, but not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from core.metrics.ledger.contradiction import contradicts
from core.metrics.ledger.matching import Known, Pool, asks_by_name
from core.metrics.ledger.reading import Quantity, any_agrees, clinical_concepts, kin_of, read
from core.metrics.ledger.replies import Reply, does_not_know, reply_to, statements_of
from core.metrics.ledger.telling import tells
from core.metrics.ledger.topics import is_open, topics_asked

_NEWBORN = 60.0
"""Days."""


@dataclass(frozen=True)
class Statement:
    """One statement of the patient: its turn, its words, the fact it contradicts (by id), whether it only denies."""

    turn: int
    text: str
    contradicts: str | None
    denial: bool = False


def invented_in(turn: int, question: str, text: str, reply: Reply, pool: Pool) -> Iterator[Statement]:
    """Yield what a message states and the case does not."""
    if reply.polarity == "unknown":
        return
    told = False
    for statement in statements_of(text):
        if does_not_know(statement):
            continue
        single = reply_to(question, statement)
        against = _contradicted(question, statement, single, pool)
        if against is not None:
            told = True
            yield Statement(turn, statement, against.fact.id)
        elif _adds(statement, question, single, pool):
            told = True
            yield Statement(turn, statement, None)
    if told or reply.polarity != "no" or not _denies_the_unknown(question, reply, pool):
        return
    if not any(tells(reply, question, known, text, pool.cared_for) for known in pool.known):
        yield Statement(turn, text, None, denial=True)


def _contradicted(question: str, statement: str, reply: Reply, pool: Pool) -> Known | None:
    of_patient = _of_patient(question, statement, reply)
    found = [
        known
        for known in pool.known
        if known.fact.told and contradicts(reply if known.fact.topic == "family history" else of_patient, known, pool)
    ]
    if not found:
        return None
    return max(found, key=lambda known: asks_by_name(question, known))


def _of_patient(question: str, statement: str, reply: Reply) -> Reply:
    """Return what a reply says of the patient: not what it says of relatives, nor a yes or no to a question on them."""
    relatives = reply.reading.of_relatives
    if "family history" in topics_asked(question):
        reply = reply_to("", statement)
    if not relatives:
        return reply
    own = frozenset(claim for claim in reply.own if claim[0] not in relatives)
    return replace(reply, own=own, claims=frozenset(claim for claim in reply.claims if claim[0] not in relatives))


def _adds(statement: str, question: str, reply: Reply, pool: Pool) -> bool:
    reading = read(statement)
    claimed = {concept for concept, denied in reply.own if not denied and concept in clinical_concepts()}
    missing = {concept for concept in claimed if not kin_of(concept) & pool.concepts}
    taken = {c for c in claimed - missing if c not in reading.of_relatives and not kin_of(c) & pool.own_concepts}
    if (
        missing
        and reading.findings
        and all(True in pool.findings.get(f, ()) for f, here in reading.findings.items() if here)
    ):
        missing = set()  # said in words that the case does not use, but of a finding that it has
    if taken or (missing and len(missing) * 2 >= len(claimed)):
        return True
    asked_when = "onset" in topics_asked(question) and not is_open(question)
    values = [q for q in reply.quantities if q.kind != "time" or asked_when]
    return bool(values) and not any(any_agrees(q, pool.quantities) for q in (*values, *map(_as_time, values)))


def _as_time(quantity: Quantity) -> Quantity:
    """Return a newborn's age as the time since birth, as which the case may give it."""
    young = quantity.kind == "age" and quantity.high < _NEWBORN
    return replace(quantity, kind="time") if young else quantity


def _denies_the_unknown(question: str, reply: Reply, pool: Pool) -> bool:
    """Say whether a no denies only what the case is silent about."""
    if any(known.blank and known.fact.topic in topics_asked(question) for known in pool.known):
        return False
    denied = {concept for concept, no in reply.claims if no and concept in clinical_concepts()}
    if denied:
        return not denied & pool.concepts
    asked = topics_asked(question)
    return bool(asked) and not asked & pool.topics and not re.search(r"anything else", question, re.IGNORECASE)
