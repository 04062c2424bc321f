"""The kind of answer that an exam question asks for, by a rule over its words.

Usually it is a diagnosis. About a fifth of the 2,004 questions of Johri et al. (2025) ask for a test, a treatment, an
organism and so on, and the prompt must say so. The words here are about exam questions, not about patients, so they
are not part of ``core.text.vocabulary``.
"""

from __future__ import annotations

import functools
import re

from core.case import FINAL_QUESTION, AsksFor, Case
from core.text.sections import sentences

_LEAD = re.compile(r"^.*[,:;]\s+(?=(?:which|what)\b)")
_HEADS = (
    re.compile(
        r"(?:\b(?:which|what) )?(?:\d+ )?(?:one )?of the following\b(?: options)?,?|\b(?:which|one) of these\b,?"
    ),
    re.compile(r"\b(?:which|what|how)\b"),
)
_STOP = re.compile(
    r"\b(?:of|for|in|to|towards?|with|on|by|from|that|at|about|associated|consistent|characteristic|confirm\w*|"
    r"establish\w*|support\w*|suggest\w*|reveal\w*|aid|given|used|has|have|excludes?|shares?|involves|represents?|"
    r"describes?|predicts?|tested|identify)\b"
)
"""Ends the words that name the kind of answer ("which of the following findings is most specific | for …")."""
_NAMES: tuple[tuple[AsksFor, str], ...] = (
    (
        "other",
        r"routes?|modes?|stages?|(?<!-)terms?|values?|locations?|areas?|directions?|sensitivity|specificity|probability|"
        r"chance|odds|ratio|incidence|prevalence|study design|bias",
    ),
    (
        "finding",
        r"findings?|features?|signs?|symptoms?|complications?|sequelae?|factors?|clues?|elements?|side[- ]effects?|"
        r"(?:risk|predisposing|prognostic) factors?|adverse \w+|characteristics?|(?:test |laboratory |lab )?results?|"
        r"abnormalit(?:y|ies)|manifestations?|complaints?|changes?|criteri(?:a|on)|images?|comorbidit(?:y|ies)|"
        r"pathologies|(?:cardiac|heart|congenital) defects?|antibod(?:y|ies)|markers?",
    ),
    ("diagnosis", r"diagnos[ie]s|diseases?|disorders?|conditions?|syndromes?"),
    (
        "organism",
        r"(?:micro)?organisms?|pathogens?|bacteri(?:um|a)|virus(?:es)?|viral infections?|fung(?:us|i)|parasites?|"
        r"(?:infectious|causative|causal|etiologic) agents?",
    ),
    (
        "mechanism",
        r"mechanisms?|pathophysiology|pathogenesis|process|causes?|a?etiolog(?:y|ies)|mutations?|"
        r"deficienc(?:y|ies)|defects?|explanations?",
    ),
    (
        "test",
        r"tests?|assays?|stud(?:y|ies)|investigations?|imaging|modality|stains?|biops(?:y|ies)|scans?|"
        r"measurements?|maneuvers?|parameters?|evaluations?|work-?up|auto-?antibodies|methods?",
    ),
    (
        "treatment",
        r"treatments?|therap(?:y|ies)|managements?|medications?|drugs?|pharmaco\w+|interventions?|prophyla\w+|"
        r"antibiotics?|vaccines?|regimens?|courses? of action|counseling|advice|agents?|procedures?|measures?",
    ),
)
_NAME = re.compile("|".join(rf"(?P<{kind}>\b(?:{words})\b)" for kind, words in _NAMES))
_STEP = re.compile(r"\bsteps?\b")
_THE_DIAGNOSIS = re.compile(r"\bdiagnosis\b")
_CONFIRMING = (
    r"(?:confirm\w*|establish\w*|yield|reveal|determin\w+|identif\w+|provide|making|make|rul(?:e|ing) out|helpful|"
    r"detect)\b"
)
_TO_CONFIRM = re.compile(rf"\b{_CONFIRMING}")
_IN_ORDER_TO_CONFIRM = re.compile(rf"\bto {_CONFIRMING}")
_TO_DIAGNOSE = re.compile(rf"\b{_CONFIRMING}|\b(?:diagnos\w+|evaluat\w+|work-?up)\b")
_TO_TREAT = re.compile(
    r"\b(?:manag\w+|treat\w*|therapy|care|prevent\w*|prescrib\w+|administ\w+|medication|pharmaco\w+|done)\b"
)
_GOES_WITH = re.compile(
    r"\b(?:associated|association|characteristic|consistent|risk|predicts?|develop\w*|suggest\w*|support|present|found|"
    r"seen|discover|observed|expected|screened|true|excludes?|except|specific|pathognomonic)\b"
)
_LOOKED_FOR = re.compile(r"\b(?:elevat\w+|increased?|decreased?|presence|visuali[sz]ation|positive)\b")
_ALIKE = re.compile(r"\b(?:shares?|has|have|involves|affects|derived)\b.*\b(?:same|similar)\b")
_WHY = re.compile(r"\b(?:describes?|explains?|responsible|accounts?|due to|caused|underl\w+|inhibition)\b")
_OF_SYMPTOMS = re.compile(
    r"\bcauses? (?:of|for) .{0,60}\b(?:symptoms?|presentation|complaints?|pain|loss|condition|illness|signs and)\b"
)
_EXPLAINS = re.compile(
    r"\b(?:best|likely|probable) (?:explains?|explanation (?:for|of)|accounts? for|causes? (?:of|for)) "
    r"(?:all (?:of )?)?(?:th(?:is|ese|e)|his|her) .{0,60}?"
    r"\b(?:findings|presentation|symptoms?|bleeding|failure|disorder|picture|illness)\b"
)
_IN_DEPTH = re.compile(
    r"\b(?:mechanism|patho\w+|process|mutation|deficiency|defect|enzyme|gene\w*|organisms?|bacteri\w+|virus\w*)\b"
)
_IS_THERE = re.compile(r"\b(?:is|are) (?:most )?(?:likely |probably )?present\b")
_HAS_IT = re.compile(r"\b(?:do|does|did) .{0,40}\bhave\b|\bsuffer\w*|\bwrong with\b|^what is it\b")


@functools.lru_cache(maxsize=4096)
def asked_for(question: str) -> AsksFor:
    """Return the kind of answer from the question alone; choices and answer would give the doctor a hint.

    The first indicative word between "which of the following" and a preposition or verb decides; without one, the
    remaining words do. ``benchmarks/bench_questions.py`` measures the rule on questions read by hand. The result is
    stored with a case: a change of the rule must also update ``cases.asks_for``.
    """
    text = _LEAD.sub("", " ".join(question.lower().replace("’", "'").split()))
    head = next((match for pattern in _HEADS if (match := pattern.search(text))), None)
    before, rest = (text[: head.start()], text[head.end() :]) if head else ("", text)
    stop = _STOP.search(rest)
    phrase = rest[: stop.start()] if stop else rest
    if _STEP.search(phrase) or _STEP.search(before):
        to_treat = _TO_TREAT.search(text) and not _IN_ORDER_TO_CONFIRM.search(text)
        return "test" if _TO_DIAGNOSE.search(text) and not to_treat else "treatment"
    if _HAS_IT.search(text) or (_EXPLAINS.search(text) and not _IN_DEPTH.search(text)):
        return "diagnosis"
    if _ALIKE.search(rest):
        return "other"
    if _LOOKED_FOR.search(before):
        return "finding"
    noun = _NAME.search(phrase)
    if noun is not None:
        # a disease next to the diagnosis of the patient is an associated finding
        kind: AsksFor = next(kind for kind, _ in _NAMES if noun[kind])
        if kind == "mechanism" and _OF_SYMPTOMS.search(text):
            return "diagnosis"
        if kind == "diagnosis" and noun[0] not in ("diagnosis", "diagnoses"):
            associated = _THE_DIAGNOSIS.search(text) or (_GOES_WITH.search(text) and not _IS_THERE.search(text))
            return "finding" if associated else kind
        return kind
    if not phrase.strip(' ?."') and before.endswith("diagnosis of "):
        return "diagnosis"
    kinds: tuple[tuple[AsksFor, re.Pattern[str]], ...] = (
        ("finding", _GOES_WITH),
        ("test", _TO_CONFIRM),
        ("mechanism", _WHY),
        ("treatment", _TO_TREAT),
        ("test", _TO_DIAGNOSE),
    )
    return next((kind for kind, words in kinds if words.search(text)), "other")


def question_kind(case: Case) -> AsksFor:
    """Return the kind of answer that a case asks for, as the case states it, otherwise by the rule."""
    return case.asks_for or asked_for(case.question)


def stated_kind(question: str, kind: AsksFor | None) -> AsksFor | None:
    """Return the kind to store with a case: ``None`` if the rule gives the same kind."""
    return None if kind == asked_for(question) else kind


def split_question(text: str) -> tuple[str, str]:
    """Return (vignette, question) of an exam item.

    The question is the first sentence with a question mark, in the last line if there are several lines (Johri et al.
    2025). Without such a sentence, the whole text is the vignette and the question is the final diagnosis.
    """
    stripped = text.strip()
    body, _, last = stripped.rpartition("\n")
    scope = last if body else stripped
    for sentence in sentences(scope):
        if "?" in sentence:
            remainder = scope.replace(sentence, " ", 1)
            vignette = "\n".join(part for part in (body.strip(), " ".join(remainder.split())) if part)
            return (vignette, sentence) if vignette else (stripped, FINAL_QUESTION)
    return stripped, FINAL_QUESTION
