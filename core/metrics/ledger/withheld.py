"""Whether a reply withholds a fact: the doctor asked for just this, and the patient denied it or did not know.

Rules. Only what is asked counts: sentences with a question mark. A question asks for a fact
where its words hold half of the fact's weighted words or its findings, or where it asks openly for the fact's topic
("any other conditions?") and for nothing narrower: "a history of epilepsy?" does not ask for asthma, nor "is anyone in
the family ill?" for the patient's own past, nor "any new medicines?" for those of long ago, nor "a rash before?" for
the rash of today. Births, vaccinations, pregnancies, operations and habits must be asked for as such. A denial
withholds what its own words deny, or, where they deny nothing in particular, what the question named. What a fact
denies, or calls normal, is not withheld by a no; nor is the complaint with which the patient came.
"""

from __future__ import annotations

import functools
import re
from itertools import takewhile

from core.metrics.ledger.contradiction import contradicts
from core.metrics.ledger.matching import Known, Pool, Wording, asks_by_name, says_little_else
from core.metrics.ledger.reading import read
from core.metrics.ledger.replies import Reply, does_not_know, members_of
from core.metrics.ledger.topics import Topic, is_open, topics_asked

NAMED = 0.5
"""Share of a fact's weighted words that a question, and the denial after it, must hold."""
_I = re.IGNORECASE
_PRESUPPOSED = re.compile(r"\bfor (?:this|these|those|that|the|your|his|her)\b[^,?]*", _I)
_BASED_ON = re.compile(r"\bbased on [^,?]*,", _I)
_ENDS = re.compile(r"(?<=[.!?\n])")
_CHANGE = re.compile(
    r"\b(?:chang(?:e|es|ed)\b|(?:start(?:ed)?|tak(?:en|ing)|had|any) (?:any )?new\b|recently (?:start|chang))", _I
)
_FOR_SOMETHING = re.compile(r"\b(?:for|that|since|because|before|after|during|due to|related to)\b", _I)
_EARLIER = re.compile(r"\bhistory of\b|\bbefore\b|\bin the past\b|\bprevious(?:ly)?\b|\bprior\b", _I)
_RECALL = re.compile(r"\b(?:recall|remember) (?:any|a|an|having|being)\b", _I)
_BY_TOPIC: frozenset[Topic] = frozenset(("medication", "allergies", "family history", "past history", "exposure"))
_OPEN_WORDS = frozenset(
    "medic medication drug diseas histori famili ill ill diagnos known medicin chronic "
    "health underli major serious regular daili prescrib past sibl relat parent run travel abroad anim pet trip "
    "prescript otc supplement vitamin been person anyon nobodi mother father children suffer similar be "
    "family".split()
)
"""Concepts with which a question asks for a topic as a whole."""
_SURGERY = r"surg|operat|procedure|\w{4,}ectomy\b|transplant|replac|repair|cesarean|caesarean"
_KINDS = tuple(
    re.compile(pattern, _I)
    for pattern in (
        r"vaccin|immuni[sz]|\bshots\b",
        r"\bborn\b|(?<!since )\bbirth|(?<!long-)(?<!short-)\bterm\b|gestation|deliver",
        r"pregnan|gravid|\bG\dP\d|miscarr|menarche",
        _SURGERY,
        r"transfus",
        r"contracept|condom|birth control|the pill\b",
        r"hospitali[sz]",
        r"smok|tobacco|alcohol|illicit|recreational|cocaine|amphetamine|heroin|marijuana|\bquit\b",
    )
)
"""What a question for the past history as a whole does not ask for."""
_IS_SURGERY = re.compile(_SURGERY, _I)


def withholds(reply: Reply, question: str, known: Known, pool: Pool) -> bool:
    """Say whether a reply withholds a fact that its question asked for."""
    if not known.fact.told or (not reply.polarity and not reply.own):
        return False
    asked = asked_part(question)
    family = known.fact.topic == "family history"
    if _of_the_family(asked) and not family:
        return False
    if asks_by_name(question, known) and contradicts(reply, known, pool):
        return True
    if reply.polarity not in ("no", "unknown") or (family and not _of_the_family(asked)):
        return False
    if not _can_be_asked(asked, known):
        return False
    if reply.polarity == "unknown":
        return not _known_unknown(reply, known) and (_names(asked, known) or _asks_openly(asked, known))
    if known.blank or known.steady or _denies(known):
        return False
    return _denied(reply, asked, known) or _asks_openly(asked, known)


def _can_be_asked(asked: str, known: Known) -> bool:
    """Say whether a question of its kind can ask for a fact of its topic at all."""
    if known.fact.topic in ("chief complaint", "demographics") or _asks_of_change(asked):
        return False
    return known.fact.topic in ("past history", "family history") or not _asks_of_earlier(asked)


@functools.lru_cache(maxsize=20_000)
def _asks_of_change(asked: str) -> bool:
    return bool(_CHANGE.search(asked))


@functools.lru_cache(maxsize=20_000)
def _asks_of_earlier(asked: str) -> bool:
    return bool(_EARLIER.search(asked))


def _known_unknown(reply: Reply, known: Known) -> bool:
    """Say whether not knowing is the fact: "I don't recall an injury" is as good as a no."""
    return _denies(known) and (bool(_RECALL.search(reply.reading.text)) or does_not_know(known.fact.text))


def _denies(known: Known) -> bool:
    return any(denied for wording in known.wordings for _, denied in wording.weights)


@functools.lru_cache(maxsize=20_000)
def asked_part(question: str) -> str:
    """Return the sentences of a message that ask; all of it where none has a question mark."""
    bare = _BASED_ON.sub(" ", question)
    return " ".join(part.strip() for part in _ENDS.split(bare) if part.endswith("?")) or bare


def _of_the_family(asked: str) -> bool:
    return "family history" in topics_asked(asked)


def _names(asked: str, known: Known) -> bool:
    reading = read(_PRESUPPOSED.sub(" ", asked))
    return (says_little_else(known) and bool(reading.findings.keys() & known.findings.keys())) or any(
        _share(wording, reading.concepts) >= NAMED for wording in known.wordings
    )


def _denied(reply: Reply, asked: str, known: Known) -> bool:
    """Say whether a no denies what the question named of the fact."""
    if not _names(asked, known):
        return False
    shared = read(asked).findings.keys() & known.findings.keys()
    if says_little_else(known) and any(reply.reading.findings.get(finding) is False for finding in shared):
        return True
    own = {concept for concept, no in reply.own if no}
    denied = own or {concept for concept, no in reply.claims if no}
    return any(_share(wording, frozenset(denied)) >= NAMED for wording in known.wordings)


def _share(wording: Wording, concepts: frozenset[str]) -> float:
    if not wording.weights:
        return 0.0
    held = sum(weight for (concept, _), weight in wording.weights.items() if concept in concepts)
    return held / sum(wording.weights.values())


def _asks_openly(asked: str, known: Known) -> bool:
    """Say whether one member of the question asks for the fact's topic as a whole."""
    topic = known.fact.topic
    if topic not in _BY_TOPIC or is_open(asked):
        return False
    if any(kind.search(known.fact.text) and not kind.search(asked) for kind in _KINDS):
        return False
    narrow = "allergy" if topic == "allergies" else "surgery" if _IS_SURGERY.search(known.fact.text) else ""
    wide = takewhile(lambda member: not _FOR_SOMETHING.search(member), members_of(asked))
    return any(wording.weights for wording in known.wordings) and any(
        topic in topics_asked(member) and not read(member).concepts - _OPEN_WORDS - {narrow} for member in wide
    )  # "medicines for the rash or any other condition" asks for nothing else
