"""The reference doctor of AutoMedic: the reference doctor's knowledge, in tags, with examination and tests beside.

After the patient's complaint it asks the staff for each kind of result in turn, then whoever is expected to tell most:
the patient (symptoms, history, family) or the staff (one sign, laboratory value or image). It ends when it is sure and
never sees the case or its answer. Made as a baseline, not for care.
"""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator, Sequence

from core.agents.base import Dialogue, Material, Question, Saying, Scene, at_once
from core.agents.reference.doctor import ReferenceDoctor
from core.case import read_demographics, sentences
from core.frameworks.automedic.roles import Facts
from core.frameworks.automedic.tags import END, TAG_OF, Addressee, Query, queries_of
from core.knowledge.base import ASKABLE, Finding, Kind
from core.knowledge.bayes import Array, DiseaseModel, Evidence, disease_model
from core.text.findings import Understanding, understanding

SURE = 0.95
"""Posterior of the leading disease at which the doctor stops asking, once it has asked for every kind of result."""
OPENING = "Hello, what brings you here today?"
BROAD = (
    "What are the vital signs?",
    "What does the physical examination show?",
    "What do the laboratory tests show?",
    "What does the imaging show?",
    "What do other tests show?",
)
"""What is asked of the staff first: every kind of result as a whole."""
_WORDED: dict[Kind, str] = {
    "sign": "Is there any finding of {name} on examination?",
    "lab": "What do the laboratory tests show on {name}?",
    "imaging": "Does the imaging or a tracing show {name}?",
}
"""How the staff is asked for one finding, by its kind."""
_SHOWN: tuple[Kind, ...] = tuple(_WORDED)
_HISTORY_FIRST = 3
"""Questions to the patient, the opening among them, before the staff is asked."""
_LEAST_GAIN = 0.004
_NEAR_BEST = 0.88
"""Questions within this share of the best expected gain are as good; the trial's seed picks one."""
_IN_VAIN = 2
"""Results not available, one after the other, after which the staff is asked for no single finding any more."""
_LEAD_INS = ("", "", "", "Thank you. ", "I see. ", "All right. ", "Understood. ")
_UNAVAILABLE = re.compile(
    r"not (?:\w+ )?(?:available|done|performed|recorded|measured|documented|listed|known|given|provided|tested)|"
    r"unavailable|no (?:\w+ )?(?:result|record|information|data)s?\b|don['’]t have|do not have",
    re.IGNORECASE,
)
_YES_OR_NO = re.compile(r"\W*(yes|no)\b", re.IGNORECASE)


class ReferenceTagDoctor:
    """Naive Bayes over findings, asking patient and staff."""

    name = ReferenceDoctor.name

    def __init__(
        self, model: DiseaseModel | None = None, reader: Understanding | None = None, *, asks_staff: bool = True
    ) -> None:
        self._model, self._reader = model or disease_model(), reader or understanding()
        self._asks_staff = asks_staff
        self._finding_of = {worded(f): f.id for f in self._model.findings if f.kind in _SHOWN}

    def ask(self, scene: Scene, demographics: Facts, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Ask the next question with its tag, or end."""
        return at_once("doctor", "dialogue", self._next_message(scene, demographics, dialogue))

    def answer(
        self, scene: Scene, demographics: Facts, material: Material, question: Question
    ) -> AsyncIterator[Saying]:
        """Answer from the evidence in the text, or in demographics and dialogue."""
        if material.text is not None:
            return ReferenceDoctor(self._model, self._reader).answer(scene, material, question)
        return self._informed(demographics, material.dialogue).answer(scene, material, question)

    def differential(self, scene: Scene, demographics: Facts, dialogue: Dialogue) -> tuple[tuple[str, float], ...]:
        """Return the five likeliest diseases after the dialogue."""
        return self._informed(demographics, dialogue).differential(scene, dialogue)

    def _informed(self, demographics: Facts, dialogue: Dialogue) -> ReferenceDoctor:
        return _Informed(self._evidence(demographics, queries_of(dialogue)), self._model, self._reader)

    def _next_message(self, scene: Scene, demographics: Facts, dialogue: Dialogue) -> str:
        rng = random.Random(f"{scene.seed}:{len(dialogue)}:doctor")
        asked = queries_of(dialogue)
        if not asked:
            return _to("patient", OPENING)
        posterior = self._model.posterior(self._evidence(demographics, asked), scene.specialty or None)
        broad = [text for text in BROAD if self._asks_staff and all(text != q.text for q in asked)]
        heard = sum(q.to == "patient" for q in asked)
        if broad and heard >= _HISTORY_FIRST:
            return _to("staff", broad[0])
        if not broad and float(posterior.max()) >= SURE and heard >= _HISTORY_FIRST:
            return END
        finding = self._most_telling(posterior, demographics, asked, rng)
        if finding is None:
            return _to("staff", broad[0]) if broad else END
        if finding.ask is None:
            return _to("staff", worded(finding))
        return _to("patient", rng.choice(_LEAD_INS) + finding.ask)

    def _most_telling(
        self, posterior: Array, demographics: Facts, asked: Sequence[Query], rng: random.Random
    ) -> Finding | None:
        """Return the finding that is expected to tell most of those not known or asked for; ``None`` if none does."""
        of_patient = {f for q in asked if q.to == "patient" for f in self._reader.asked_findings(q.text)[:1]}
        known = set(self._evidence(demographics, asked).findings) | (
            of_patient | {self._finding_of[q.text] for q in asked if q.text in self._finding_of}
        )
        singly = self._asks_staff and all(any(q.text == text for q in asked) for text in BROAD)
        kinds = (*ASKABLE, *_SHOWN) if singly and not self._in_vain(asked) else ASKABLE
        gains = self._model.information_gain(posterior, known, kinds)
        if not gains or gains[0][0] < _LEAST_GAIN:
            return None
        return rng.choice([finding for gain, finding in gains if gain >= _NEAR_BEST * gains[0][0]])

    def _in_vain(self, asked: Sequence[Query]) -> bool:
        """Say whether the staff had nothing on the last findings that were asked for singly."""
        last = [q for q in asked if q.text in self._finding_of][-_IN_VAIN:]
        return len(last) == _IN_VAIN and all(_UNAVAILABLE.search(q.reply or "") for q in last)

    def _evidence(self, demographics: Facts, asked: Sequence[Query]) -> Evidence:
        """Return what demographics and replies say; of contradicting words the later ones count."""
        known = " ".join(fact.value for fact in demographics)
        findings = dict(self._reader.recogniser.read(known))
        pairs = tuple((q.text, q.reply) for q in asked if q.to == "patient" and q.reply is not None)
        told = self._reader.evidence_of_dialogue(pairs)
        findings.update(told.findings)
        for q in asked:
            if q.to == "staff" and q.reply is not None:
                findings.update(self._shown(q.text, q.reply))
        age, sex = read_demographics(known)
        return Evidence(findings, age if age is not None else told.age, sex or told.sex)

    def _shown(self, query: str, reply: str) -> dict[str, bool]:
        """Return what a reply of the staff shows; what is not available says nothing."""
        available = " ".join(s for s in sentences(reply) if not _UNAVAILABLE.search(s))
        if not available:
            return {}
        read = dict(self._reader.recogniser.read(available))
        answered, finding = _YES_OR_NO.match(available), self._finding_of.get(query)
        if answered and finding and finding not in read:
            read[finding] = answered[1].lower() == "yes"
        return read


class _Informed(ReferenceDoctor):
    """The reference doctor with its evidence already read."""

    def __init__(self, evidence: Evidence, model: DiseaseModel, reader: Understanding) -> None:
        super().__init__(model, reader)
        self._given = evidence

    def _heard(self, dialogue: Dialogue) -> Evidence:
        return self._given

    def _evidence(self, material: Material) -> Evidence:
        return self._given


def worded(finding: Finding) -> str:
    """Return the query to the staff for one finding."""
    return _WORDED[finding.kind].format(name=finding.name)


def _to(addressee: Addressee, text: str) -> str:
    tag = TAG_OF[addressee]
    return f"<{tag}>{text}</{tag}>"
