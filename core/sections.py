"""Which part of a vignette each sentence belongs to, and which sentences only an examiner or a device could state.

Headings ("Past history:", "Labs:") decide where there are any. Otherwise the words of a sentence do, in the order of
the table below, and a sentence that says nothing of its own section stays with the one before. From that follows what
examination and tests show (``divided``): all that the patient could not state, vital signs and tests included. It is
what the doctor is handed as the examination, what the clinical staff may say, and what a patient who
answers by rule may not.

A sentence that mixes both goes by its main clause: one that reports ("denies", "says", "takes", "three weeks ago")
belongs to the history, unless it opens with the examination or a vital sign ("On examination, she has …").
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from core.vocabulary import relatives, subject, verbs

Section = Literal["vital_signs", "examination", "laboratory", "imaging", "other_tests"]
"""What examination and tests show, by who or what shows it."""
VignetteSection = Literal[
    "demographics", "complaint", "past_history", "medication", "family_history", "social_history", "vital_signs",
    "examination", "laboratory", "imaging", "other_tests",
]  # fmt: skip
"""Parts of a vignette; ``complaint`` is the chief complaint with the history of the present illness."""
VIGNETTE_SECTIONS: tuple[VignetteSection, ...] = get_args(VignetteSection)
_SECTIONS: dict[str, Section] = {name: name for name in get_args(Section)}

_ABBREVIATION = "".join(
    rf"(?<!\b{word}\.)" for word in ("Dr", "Mr", "Mrs", "Ms", "St", "vs", "approx", "e\\.g", "i\\.e")
)
_SENTENCE = re.compile(rf"(?<=[.!?]){_ABBREVIATION}[\"')\]”]*\s+(?=[A-Z0-9\"'(“])")


def sentences(text: str) -> list[str]:
    """Split prose into sentences; decimals and units stay whole."""
    return [piece.strip() for line in text.splitlines() for piece in _SENTENCE.split(line) if piece.strip()]


_HEADINGS: tuple[tuple[str, VignetteSection], ...] = (
    (r"demographics?|patient(?: data| details)?|age(?: and |/)sex", "demographics"),
    (r"(?:chief|presenting|main) complaints?|cc|history of (?:the )?(?:present|presenting) (?:illness|complaint)|hpi|"
     r"history|symptoms|presentation|review of systems|ros|reason for (?:visit|consultation)", "complaint"),
    (r"(?:past |previous )?(?:medical|surgical|past|psychiatric|obstetric|birth|developmental)"
     r"(?: (?:and|&) surgical)? history|pmh|psh|allergies|comorbidities", "past_history"),
    (r"(?:current |home |regular )?(?:medications?|medicines|drugs|meds|drug history)", "medication"),
    (r"family(?: medical)? history|fh|fhx", "family_history"),
    (r"(?:social|sexual|travel|occupational) history|sh|shx|habits|lifestyle", "social_history"),
    (r"vital signs|vitals|observations", "vital_signs"),
    (r"(?:physical |clinical |on )?(?:examination|exam|findings)|pe|o/e", "examination"),
    (r"lab(?:oratory)?s?(?: (?:tests|results|studies|values|findings|data))?|blood (?:tests|work)|bloods|urinalysis",
     "laboratory"),
    (r"imaging(?: studies| findings)?|radiology|x-?rays?|ct|mri|ultrasound", "imaging"),
    (r"other (?:tests|investigations|studies)|ecg|ekg|investigations|tests|biopsy|pathology", "other_tests"),
)  # fmt: skip
_HEADING = re.compile(r"^[*_#\s-]*(?P<name>[A-Za-z][A-Za-z/& -]{1,40}?)[*_\s]*(?::[*_\s]*(?P<rest>.*)|(?P<bare>))$")

_KIN = relatives("parents", "siblings", "grandparents", "wider")
_WORDS: tuple[tuple[VignetteSection, str], ...] = (
    ("family_history",
     rf"family history|runs? in (?:the|his|her) family|\b(?:{_KIN})s?\b[^.]{{0,40}}\b(?:had|has|have|died|was "
     r"diagnosed|suffers?|with|are healthy|is healthy)\b|"
     r"nobody (?:else )?in (?:the|his|her) family"),
    ("imaging",
     rf"{subject('imaging')}|scintigra|barium|\bpet\b|imaging"),
    ("other_tests",
     rf"{subject('tracing')}|electromyo|nerve conduction|biopsy|spirometr|pulmonary "
     r"function|endoscop|colonoscop|gastroscop|bronchoscop|audiometr|\bskin prick|patch test|polysomno|"
     r"lumbar puncture|histolog|microscop|immunofluorescence|dermoscop|fine-needle|manometr|cystoscop"),
    ("laboratory",
     r"laborator|serum|h(?:a)?emoglobin|leu[ck]ocyt|platelet|creatinine|urinalysis|blood count|\bcount (?:is|of)\b|"
     r"culture|antibod|blood tests?|glucose|sodium|potassium|calcium|bilirubin|transaminase|aminotransferase|"
     r"c-reactive|sedimentation|\btsh\b|thyroid-stimulating|troponin|h(?:a)?ematocrit|smear|cerebrospinal|ferritin|"
     r"cortisol|albumin|dipstick|pregnancy test|serolog|antigen|white (?:blood )?cell|red cell|red blood|"
     r"prothrombin|\bmg/d?l\b|\bmmol|\bg/dl\b|/mm3|/µl|\bu/l\b|mcv|lipase|\bph (?:is|of)\b|kinase|polymerase chain|"
     r"dehydrogenase|complement|rheumatoid factor|proteinuria"),
    ("vital_signs",
     r"vital signs|temperature (?:is|of|was)|\bpulse (?:is|of|was|\d)|blood pressure (?:is|of|was|\d)|heart rate|"
     r"respirat(?:ory rate|ions)|oxygen saturation|afebrile|mm ?hg|/min\b|body mass index|\bbmi\b"),
    ("examination",
     r"examination|\bon exam\b|\bexam (?:shows|reveals)|auscultat|palpat|percussion|murmur|tender|reflex|inspection|"
     r"breath sounds|heart sounds|crackles|pupils?\b|lymph nodes|lymphadenopathy|gait|jugular|edema|"
     r"\b(?:there (?:is|are)|shows?|reveals?|seen|noted|heard|felt|looks?|appears?)\b[^.]{0,80}\b(?:skin|papules?|"
     r"plaques?|vesicles?|erythema|swelling|lungs?|abdomen|spleen|liver|joints?|tongue|throat|eyes?|rash|lesions?|"
     r"pale|breathing|mass)\b|"
     r"\b(?:lungs|abdomen|spleen|liver|skin|throat|neck|heart|chest|nails|eardrums|conjunctivae) (?:is|are)\b|"
     r"sign is (?:positive|negative)|strength is|sensation is|range of motion"),
    ("medication",
     r"\b(?:takes?|taking)\b(?! (?:over|place|part|care))|\bprescribed\b|\binhaler\b|\bmedications? (?:include|are|is)|"
     r"no medic(?:ation|ine)|(?:current|only|regular) medic|treated with"),
    ("social_history",
     rf"{subject('smoking', 'alcohol', 'sex', 'travel')}|illicit|recreational|occupation|retired|\bdrinks\b|"
     r"\bworks? (?:as|at|in)\b|lives? (?:with|alone|in|on)|\bpets?\b|monogamous|married|hobb"),
    ("past_history",
     r"history of|past (?:medical|surgical)|medical history|(?:was |been )?diagnosed with|previous(?:ly)?|underwent|"
     r"\b(?:has|had) (?:type|hypertension|asthma|diabetes|high blood pressure|surgery|a? ?hysterectomy|atopic)|"
     r"vaccin|immuni[sz]|allerg|(?:years?|months?) ago,? (?:he|she) (?:had|was|underwent)|born at|pregnanc(?:y|ies) w|"
     r"otherwise healthy|no (?:serious|major|prior|chronic) (?:illness|medical)"),
)  # fmt: skip


class _Words:
    """The words of a section, looked for in lower-case text: the plain ones as they stand, which is much quicker."""

    def __init__(self, pattern: str) -> None:
        alternatives = [""]
        depth = 0
        for letter in pattern:
            depth += (letter == "(") - (letter == ")")
            if letter == "|" and depth == 0:
                alternatives.append("")
            else:
                alternatives[-1] += letter
        self._plain = tuple(one for one in alternatives if re.fullmatch(r"[a-z -]+", one))
        others = [one for one in alternatives if one not in self._plain]
        bounded = [one.removeprefix(r"\b") for one in others if one.startswith(r"\b")]
        anywhere = [one for one in others if not one.startswith(r"\b")]
        patterns = [rf"\b(?:{'|'.join(bounded)})"] if bounded else []
        self._others = tuple(re.compile(one) for one in (*patterns, "|".join(anywhere)) if one)

    def are_in(self, lowered: str) -> bool:
        return any(map(lowered.__contains__, self._plain)) or any([one.search(lowered) for one in self._others])


_WORD_RULES = tuple((section, _Words(pattern)) for section, pattern in _WORDS)
_PRESENTS = re.compile(
    r"\b(?:comes?|came|presents?|presented|brought|referred|admitted|evaluated|seen|visits?|complain\w*|because of|"
    r"with (?:a|an|\w+) )",
    re.IGNORECASE,
)
_PERSON = re.compile(r"\b\d+[- ](?:year|month|week|day|hour)s?[- ]old\b|\bnewborn\b|\bis (?:a )?(?:fe)?male\b", re.I)


def sections_of(vignette: str) -> tuple[tuple[VignetteSection, str], ...]:
    """Return (section, sentence) for every sentence of the vignette, in its order; headings are left out."""
    return tuple((part.section, part.sentence) for part in _parts(vignette) if part.sentence)


class _Part(NamedTuple):
    """A sentence with its section, the line that it stands in, and the heading before it, if there is one.

    The sentence is empty where a line holds nothing but a heading. ``by`` is what tells the section: a heading, the
    sentence's own words, or nothing but the sentence before.
    """

    section: VignetteSection
    by: Literal["heading", "words", "before"]
    sentence: str
    line: int
    heading: str


_LINE = 60
"""Characters: a shorter line without a full stop, after a result, is a value of the same table."""


def _parts(vignette: str) -> Iterator[_Part]:
    before: VignetteSection | None = None
    headed: VignetteSection | None = None
    for number, line in enumerate(vignette.splitlines()):
        section, heading, rest = _heading(line)
        if section is not None:
            headed = section
        elif not line.strip():
            headed = None if headed and before == headed else headed
        if section is not None and not rest.strip():
            yield _Part(section, "heading", "", number, heading)
        for sentence in sentences(rest):
            of_table = before in _SECTIONS and sentence[-1] not in ".!?:" and len(sentence) < _LINE
            own = None if headed else before if of_table else _by_words(sentence, first=before is None)
            carried = "examination" if before == "vital_signs" else before if before in _SECTIONS else "complaint"
            before = headed or own or carried
            yield _Part(before, "heading" if headed else "words" if own else "before", sentence, number, heading)
            heading = ""


def _heading(line: str) -> tuple[VignetteSection | None, str, str]:
    """Return the section that a line names, its heading, and the rest of the line."""
    match = _HEADING.match(line)
    if match:
        for pattern, section in _HEADINGS:
            if re.fullmatch(pattern, match["name"].strip(), re.IGNORECASE):
                rest = match["rest"] or ""
                return section, line[: len(line) - len(rest)].strip(), rest
    return None, "", line


def _by_words(sentence: str, *, first: bool) -> VignetteSection | None:
    """Return the section that a sentence's own words tell, or ``None``."""
    if first or _PERSON.search(sentence):
        return "complaint" if _PRESENTS.search(sentence) or not _PERSON.search(sentence) else "demographics"
    lowered = sentence.lower()
    return next((section for section, words in _WORD_RULES if words.are_in(lowered)), None)


_MORE_WORDS: tuple[tuple[Section, str], ...] = (
    ("laboratory",
     r"\blabs?\b|\bblood (?:glucose|gas)|scraping|lymphocytes|neutrophils|eosinophils|\bkoh\b|\btiter|bicarbonate|"
     r"gram stain|\bpcr\b|\btest (?:is|was|shows|reveals)|\d\s*(?:mg/d|g/d|g/l|meq|mmol|u/l|iu/|[μµu]g/|ng/|pg/|fl\b|"
     r"mm/h|/hpf|/mm|cells/)"),
    ("vital_signs", r"\d\s*°|\bpulse\b|\bsaturat|\d\s?/ ?min\b|percentile|\bbp \d|\bhr \d|\bapgar"),
    ("examination",
     r"\bexam\b|organomegal|hepatomegal|splenomegal|cyanotic|diaphoretic|capillary refill|rebound|guarding|gallop|"
     r"cranial nerve|glasgow|\bis (?:alert|oriented|ill-appearing|in (?:no |mild |severe |acute )+distress)|"
     r"(?:papule|plaque|nodule|macule|vesicle|pustule|patch|lesion|erythema|swelling|bulla)[se]* (?:is|are|was|were) "
     r"(?:\w+ )?(?:seen|noted|present|observed|visible|identified|appreciated)|"
     r"^(?:he|she|the (?:patient|child|infant|newborn|boy|girl|man|woman|baby)) (?:(?:otherwise|also|is [\w ]+,) )?"
     r"(?:appears|looks) (?!to (?:have|be having)\b)|\b(?:passively|when asked to)\b|"
     r"\byou (?:note|notice|see|find|examine|observe|palpate|hear|appreciate)\b|evaluation (?:reveals|shows)|"
     r"(?:photograph|photo|picture|image)s? (?:of .{2,60})?(?:is|are|was|were) (?:shown|given|provided)|"
     r"\b(?:well[- ](?:circumscribed|demarcated|defined)|poorly demarcated|erythematous|violaceous|annular|targetoid|"
     r"hyperpigmented|hypopigmented|indurated|pedunculated|umbilicated|lichenified|telangiectasias?|verrucous|"
     r"hyperkeratotic|symmetrically|coalesc\w+|nikolsky|flaccid|tense|fluctuant|dusky|atrophic|dystrophic|"
     r"papulosquamous|\d\s?-?\s?[cm]m)\b.{0,80}\b(?:papul|plaque|macul|patch|nodul|vesic|bull|blister|pustul|lesion|"
     r"eruption|rash|erosion|ulcer|crust|scal|skin|face|border|nail|mass|annular|sign)|"
     r"\b(?:papules?|plaques?|macules?|patch|patches|nodules?|vesicles?|bullae|blisters|pustules|lesions?|eruption|"
     r"erosions) (?:\w+ ){0,3}?(?:is|are|was|were|involve|also involve|have|has|exhibit) (?:\w+ ){0,2}?(?:located|"
     r"distributed|symmetric\w*|the trunk|discrete|erythematous|umbilicated|raised|surrounded|covered|scattered|"
     r"confined)|\b(?:surfaces?|structure|growth|lesion|mass|patch|plaque|nodule) (?:\w+ ){0,5}?(?:exhibits?|feels|"
     r"is (?:\w+-white|yellow|firm|fleshy))"),
)  # fmt: skip
"""What tells a result where the first table, made for whole vignettes, would still take it for the complaint."""
_MORE_RULES = tuple((section, _Words(pattern)) for section, pattern in _MORE_WORDS)
_UNSURE = "note add recall describe mention claim"
_TELLS = re.compile(
    rf"\b(?:{verbs('reporting', 'base', 's', 'past', without=_UNSURE)}|complain\w*|takes|taking|smok\w+|drinks|"
    rf"(?:{relatives('parents', 'partners', 'companions')})s?|family|works|lives|notes that|travel\w*|allerg\w*|confess\w*|"
    r"history of|recently|last (?:week|month|year|physical)|(?:days?|weeks?|months?|years?) (?:ago|earlier)|pets?\b|"
    r"diagnosed|medications?|vaccin\w+|immuni[sz]\w+)\b",
    re.IGNORECASE,
)
_REPORTED = re.compile(
    r"^(?:[\w’']+,? ){0,3}?(?:he|she|they|(?:his|her|the)(?: patient['’]s)? (?:patient|\w+)) (?:also |currently |"
    rf"then )?(?:{verbs('reporting', 'base', 's')}|takes|smokes|drinks)\b",
    re.IGNORECASE,
)
_STRONGLY_SHOWN = re.compile(
    r"^(?:up)?(?:on|at) (?:\w+ ){0,3}?(?:exam\w*|inspection|auscultation|palpation|arrival)\b|\bexam(?:ination)? "
    r"(?:shows?|showed|reveals?|revealed|is|was|demonstrates?|demonstrated|finds)\b|^(?:his|her|the) (?:temperature|"
    r"vital|pulse|blood pressure)",
    re.IGNORECASE,
)
_DONE = re.compile(
    r"\b(?:refers|is referred|reassures|demands|vomits|delivered (?:vaginally|by)|prenatal visit|never notes|is (?:"
    r"very )?concerned|no other (?:medical|symptoms|complaints)|no systemic symptoms|(?:no|positive) history of|"
    r"sample (?:is|are|for analysis)|plotted)\b|\blast (?:\w+ ){0,3}exam\w*\b",
    re.IGNORECASE,
)
"""What somebody does or tells, whatever results are named with it."""
_GOES_ELSEWHERE = re.compile(
    r"\b(?:treatment (?:is|was|with)|treated with|therapy (?:is|was) (?:begun|started|initiated)|(?:is|was) (?:"
    r"admitted|discharged|rushed|transferred|started on|informed|counsel\w+|prescribed|advised|taken to|"
    r"given)|initiated|well-controlled|spending|calls|following an?|because)\b|^(?:\w+ ){1,3}(?:ago|earlier|later),|"
    r"^although\b",
    re.IGNORECASE,
)
"""What ends a run of results, where the sentence shows none of its own."""
_ASKS = re.compile(
    r"^(?:which|what) (?:one )?(?:of the|is|are|would|will|should|test|next|diagnosis)\b|"
    r"\bmost likely diagnosis\b[^.]{0,40}(?:is|:)$|\?[\"”’]?$",
    re.IGNORECASE,
)
"""A question that was left in the vignette: nobody in the conversation may hear it."""
_GOES_ON = re.compile(
    rf"(?!(?:he|she|the patient|(?:his|her|the) (?:{relatives('parents')}))\b)(?:[\w,'’-]+ ){{1,8}}?(?:is|are|was|"
    r"were) (?:also )?(?:normal|intact|clear|unremarkable|present|absent|seen|noted|visible|positive|negative|pending|"
    r"within)\b",
    re.IGNORECASE,
)
"""How a sentence begins that goes on with what an examination showed."""


@dataclass(frozen=True)
class Divided:
    """A vignette's sentences in its order: those of the history, and the others each with its section.

    ``examination`` is the latter as a text, with its headings and line breaks; empty where there are none.
    """

    told: tuple[str, ...]
    shown: tuple[tuple[Section, str], ...]
    examination: str


@functools.lru_cache(maxsize=4_096)
def divided(vignette: str) -> Divided:
    """Divide a vignette by who can state it; its first sentence, which says who comes, belongs to the history."""
    told: list[str] = []
    shown: list[tuple[Section, str]] = []
    text: list[str] = []
    before: Section | None = None
    line = -1
    for number, part in enumerate(_parts(vignette)):
        sentence = part.sentence
        if ("?" in sentence or sentence[:2] in ("Wh", "wh") or "ost likely" in sentence) and _ASKS.search(sentence):
            continue
        section = _shown_by(part)
        if section is None and before is not None and _GOES_ON.match(sentence):
            section = before
        if number == 0 and not _STRONGLY_SHOWN.search(sentence):
            section = None
        before = section
        if section is None:
            told.append(sentence)
            continue
        if sentence:
            shown.append((section, sentence))
        text.append("\n" if text and part.line != line else " " if text else "")
        text.append(f"{part.heading} {sentence}".strip())
        line = part.line
    return Divided(tuple(filter(None, told)), tuple(shown), "".join(text))


def _shown_by(part: _Part) -> Section | None:
    """Return the section of a sentence that examination or tests show, else ``None``."""
    found = _SECTIONS.get(part.section)
    if found is None and part.section not in ("complaint", "demographics"):
        return None
    told = bool(_TELLS.search(part.sentence)) and not _STRONGLY_SHOWN.search(part.sentence)
    if found is None or part.by != "words":
        lowered = part.sentence.lower()
        rules = _MORE_RULES if part.by == "before" else (*_SHOWN_RULES, *_MORE_RULES)
        own = next((section for section, words in rules if words.are_in(lowered)), None)
        if found is None:
            found = None if told else own
        elif own is None and (told or _GOES_ELSEWHERE.search(part.sentence)):
            found = None
    reported = told and _REPORTED.search(part.sentence)
    return None if found is None or reported or _DONE.search(part.sentence) else found


_SHOWN_RULES = tuple((_SECTIONS[section], words) for section, words in _WORD_RULES if section in _SECTIONS)
