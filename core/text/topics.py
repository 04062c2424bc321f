"""Topics of clinical history: what a fact is about, and what a doctor's question asks for.

Rules on words, in the order of the tables: the first that fits a fact gives its topic; a question may fit several.
The topics follow the parts of a medical history that a doctor is prompted for (Johri et al. 2025, Methods) and what
the clinical staff tell (Oh et al., profile generator: vital signs, examination, laboratory, imaging).
"""

from __future__ import annotations

import functools
import re
from typing import Literal

from core.case import Section
from core.text.negation import is_negated
from core.vocabulary import relatives, subject

Topic = Literal[
    "demographics", "chief complaint", "onset", "character", "associated symptoms", "negatives", "past history",
    "medication", "allergies", "family history", "social history", "exposure", "vital signs", "examination",
    "laboratory", "imaging", "other",
]  # fmt: skip
TOPICS: tuple[Topic, ...] = (
    "demographics", "chief complaint", "onset", "character", "associated symptoms", "negatives", "past history",
    "medication", "allergies", "family history", "social history", "exposure", "vital signs", "examination",
    "laboratory", "imaging", "other",
)  # fmt: skip
"""In the order in which a history is usually taken; tables and charts keep it."""
SHOWN: frozenset[Topic] = frozenset(("vital signs", "examination", "laboratory", "imaging"))
"""Only examination and tests show these; a patient cannot be expected to tell them."""
SYMPTOMS: frozenset[Topic] = frozenset(("chief complaint", "onset", "character", "associated symptoms"))
"""What an open question ("anything else?") and the greeting ask for."""
SECTIONS: dict[Section, Topic] = {
    "vital_signs": "vital signs",
    "examination": "examination",
    "laboratory": "laboratory",
    "imaging": "imaging",
    "other_tests": "laboratory",
}
"""A profile's sections as topics; tests that are neither blood nor pictures count with the laboratory."""

_I = re.IGNORECASE
_PERIOD = r"(?:hour|day|week|month|year|night|evening|morning)s?"
_KIN = relatives("parents", "siblings")
_RELATIVE = f"(?:{relatives('parents', 'siblings', 'grandparents', 'wider', 'children')})s?"

# searched in lower-case text, which takes a third of the time of a search that ignores case
_SHOWN_RULES: tuple[tuple[Topic, re.Pattern[str]], ...] = (
    ("imaging", re.compile(
        rf"{subject('imaging', 'tracing')}|\becho\b|\bimaging\b|tomograph|endoscop|colonoscop")),
    ("laboratory", re.compile(
        r"laborator|\bserum\b|\bblood tests?\b|hemoglobin|haemoglobin|leukocyte|platelet|creatinine|urinalysis|"
        r"\bantibod|\bcultures?\b|biops|\bsmear\b|gram stain|\btiter|\bpcr\b|serolog|hematocrit|troponin|sodium|"
        r"potassium|bicarbonate|bilirubin|albumin|ferritin|\btsh\b|\bcsf\b|cerebrospinal|puncture|microscop|histolog|"
        r"scraping|lymphocytes|neutrophils|eosinophils|white (?:blood )?cells?|blood count|sedimentation|dipstick|"
        r"\d\s*(?:mg/d|g/d|g/l|meq|mmol|u/l|iu/|[μµu]g/|ng/|pg/|fl\b|mm/h|/hpf|/mm|cells/)|reactive protein|antigen|"
        r"glucose|\bkoh\b|skin prick|\btest (?:is|was|shows|reveals)")),
    ("vital signs", re.compile(
        r"temperature (?:is|of|was)|\btemp\b|blood pressure (?:is|of|was|\d)|\bbp\b|pulse|heart rate|respirat\w+ "
        r"(?:rate|is|are|\d)|respirations|oxygen saturation|saturat|vital signs|mm ?hg|\d\s?/ ?min|\bbmi\b|"
        r"body mass index|°|afebrile|percentile|^temperature$")),
    ("examination", re.compile(
        r"\bexam(?:ination|ined)?\b|auscultat|palpa(?:t|ble)|percussion|murmur|crackles|wheez\w+ (?:is|are) heard|"
        r"reflexes|\binspection|rebound|guarding|breath sounds|heart sounds|bowel sounds|tympanic|conjunctiv|"
        r"pupils|hepatomegal|splenomegal|lymphadenopath|organomegal|pitting|sclera|cranial nerve|dermoscop|"
        r"appears (?:ill|well|pale|distress|toxic)|\bis alert\b|range of motion|gait is|gallop|jugular|nontender|"
        r"non-tender|capillary refill|cyanotic|diaphoretic|tenderness|strength is|sensation (?:is|to)|"
        r"(?:papule|plaque|nodule|macule|vesicle|pustule|patch|lesion|erythema|swelling)s? (?:is|are) "
        r"(?:seen|noted|present|observed|visible)|(?:lungs|abdomen|heart|chest|throat|oropharynx|skin|neck) (?:is|are) "
        r"(?:clear|soft|normal|regular|supple|distended|red|warm)")),
)  # fmt: skip

_TOLD_RULES: tuple[tuple[Topic, re.Pattern[str]], ...] = (
    ("allergies", re.compile(r"\ballerg(?:y|ies|ic to)\b")),
    ("family history", re.compile(
        rf"family history|in (?:the|her|his|their) family|"
        rf"\b{_RELATIVE}\b(?! (?:fears|thinks|believes|says|states|reports|notes|notices|mentions))"
        rf".{{0,40}}\b(?:has|had|have|with|died|was|"
        rf"suffers?|diagnosed|developed|is|are|takes)\b(?! (?:been (?:trying|giving|using)|found|noticed|noted|brought|"
        rf"tried|given|reported|said|seen|concerned|worried|afraid|here))|"
        rf"\b(?:in|of) (?:her|his|their|the) {_RELATIVE}\b")),
    ("medication", re.compile(
        r"\bmedic(?:ation|ine)s?\b|\bdrugs?\b(?! (?:use|abuse))|\btablets?\b|\bpills?\b|\bprescri|\bcontracepti|"
        r"\binhaler|\bvitamins?\b|\bsupplements?\b|(?<!over )\b(?:takes|taking|took|started|treated with|uses|using|"
        r"used|on) (?:\w+ ){0,4}?(?!school|again|begin|skin|pain|urine|medicine)"
        r"\w{3,}(?:in|ol|ide|ine|one|ate|pril|mab|tan|am|fen|illin|ycin|azole|statin|prazole|"
        r"cream|ointment|steroids?|insulin)\b|\b(?:ibuprofen|aspirin|metformin|lisinopril|paracetamol|"
        r"acetaminophen|insulin|antibiotics?|antacids?|prednisone|levothyroxine|warfarin|\w{4,}(?:pril|statin|olol|"
        r"sartan|azole|cillin|mycin|oxacin|prazole))\b")),
    ("social history", re.compile(
        rf"{subject('smoking', 'alcohol', 'drugs', 'work', 'home')}|\bpacks?\b|\bdrinks?\b|\bworks?\b(?! )|"
        r"\bworks (?:as|at|in|for|with)\b|sexually active|sexual partner|condom|lives (?:with|alone|in|at)|\bdiet\b|"
        r"exercis\w+ (?:regularly|daily)|\bcaffeine|coffee|stress at")),
    ("exposure", re.compile(
        rf"{subject('travel', 'animals')}|visited|camping|hiking|\bticks?\b|\bbites?\b|bitten|sick contacts?|"
        r"contact with|exposure|exposed|\bswam\b|raw (?:milk|fish|meat|oyster)|undercooked|unpasteuri|"
        r"similar (?:symptoms|rash|illness)|at home (?:itch|is|are|has)|daycare|contacts")),
    ("past history", re.compile(
        rf"medical history|(?<!day )(?<!week )(?<!month )\bhistory of\b|diagnosed with|"
        rf"{subject('surgery', 'vaccination')}|previous(?:ly)? |prior |in the past\b|hospitali[sz]|born at|delivery|"
        r"pregnanc|gravid|\bbirth\b|\bpast history|hypertension|\bdiabetes\b|\basthma\b|childhood|years? ago|"
        r"menarche|\bas an? (?:baby|child|infant|teenager)\b|earlier episodes?|illness(?:es)? (?:before|as)|"
        r"transfus")),
)  # fmt: skip
_ONSET = re.compile(
    rf"^(?:(?:that |which )?(?:began|started|has lasted|lasting|first noticed|developed) )?(?:for|since|over|during|"
    rf"within|in) (?:the )?(?:about |past |last |previous |approximately )*(?:an? |\w+ )?{_PERIOD}\b|"
    rf"^(?:about |approximately )?\w+ {_PERIOD} (?:ago|earlier)$|^{_PERIOD}$|\b(?:began|started|noticed|appeared|"
    rf"onset)\b.{{0,30}}\b(?:ago|{_PERIOD}|suddenly|gradually)|"
    r"^(?:sudden|gradual)\w*(?: onset)?$|onset|\bduration\b|time course",
    _I,
)
_CHARACTER = re.compile(
    r"worse|better|reliev|aggravat|alleviat|eased?\b|radiat|spread|\b\d+ ?/ ?10\b|out of 10|describe[sd]? (?:it|"
    r"the|her|"
    r"his)|\b(?:sharp|dull|burning|throbbing|stabbing|crampy|constant|intermittent|comes and goes|episodes? last)\b|"
    r"\bafter (?:eating|meals|exertion)|triggered|brought on|improves?|at night\b",
    _I,
)
_KEYS: tuple[tuple[Topic, re.Pattern[str]], ...] = (
    ("chief complaint", re.compile(r"chief complaint", _I)),
    ("demographics", re.compile(r"^(?:age|sex|gender)\b|ethnic|occupation of", _I)),
    ("family history", re.compile(r"family", _I)),
    ("allergies", re.compile(r"allerg", _I)),
    ("medication", re.compile(r"medic(?:ation|ine)|drugs?\b|treatment", _I)),
    ("social history", re.compile(
        rf"{subject('smoking', 'alcohol', 'work')}|social|\bdiet|sexual (?:hist|activ)|\bwork|habits", _I)),
    ("exposure", re.compile(r"travel|exposure|contacts?\b|animals?|pets?\b|bites?\b|surroundings", _I)),
    ("past history", re.compile(r"\bpast\b|surg|history|vaccin|pregnanc|birth|earlier|previous|recent illness", _I)),
    ("onset", re.compile(r"onset|duration|^course$|time course|timing|start\b", _I)),
    ("character", re.compile(
        r"character|radiation|effect of|relief|trigger|severity|pattern|appearance|spread|aggravat|quality|location|"
        r"pain on|timing", _I)),
)  # fmt: skip

_QUESTIONS: tuple[tuple[Topic, re.Pattern[str]], ...] = (
    ("demographics", re.compile(r"\bhow old\b|\bage\b|\bgender\b|\bsex\b(?!ual)|man or a woman|male or female", _I)),
    ("onset", re.compile(
        r"how long|\bwhen (?:did|was|were|have|has)\b|since when|\bstart|\bbeg[aiu]n|duration|onset|sudden|"
        r"first notice", _I)),
    ("character", re.compile(
        r"describe|what (?:does|do|is|kind|type|sort)\b.{0,25}(?:feel|pain|like|look)|makes? (?:it|them|the|your|"
        r"things).{0,25}(?:better|worse)|better or worse|worsen|improve|reliev|aggravat|trigger|radiat|spread|"
        r"how (?:severe|bad|often)|scale (?:of|from)|constant|come and go|\bwhere\b|elsewhere|anywhere else|"
        r"sharp|dull|pattern|appearance", _I)),
    ("past history", re.compile(
        r"medical (?:history|condition|problem|issue)|health (?:condition|problem|issue)|past (?:illness|medical|"
        r"health)|"
        r"surger|operat|hospital|diagnosed|pre-?existing|underlying|been ill|chronic|other (?:illness|condition)s?|"
        r"(?:happened|had this|similar|experienced).{0,30}(?:before|in the past)|"
        r"skin (?:problem|condition)|recent(?:ly)? (?:illness|infection|been sick|had a cold)|(?<!family )history of "
        r"(?!.{0,30}family)", _I)),
    ("medication", re.compile(
        r"medicat|medicine|drugs?\b(?! use)|tablets|pills|taking any|supplement|vitamin|treatments?\b|over-the-counter|"
        r"tried any", _I)),
    ("allergies", re.compile(r"allerg", _I)),
    ("family history", re.compile(rf"famil(?:y|ies)|relatives?\b|\b(?:{_KIN})s?\b|run in\b", _I)),
    ("social history", re.compile(
        rf"{subject('smoking', 'alcohol', 'drugs', 'work')}|\bdrink\b|\bwork\b|for a living|"
        r"sexual|\bdiet\b|lifestyle|\blive\b|exercise|\bstress\b|living situation", _I)),
    ("exposure", re.compile(
        rf"{subject('travel', 'animals')}|expos|bite|bitten|contact with|around anyone|sick (?:people|"
        r"person|contacts)|anyone (?:else|around|at home)|new (?:soap|product|food|detergent|place)s?", _I)),
    ("vital signs", re.compile(r"temperature\b|blood pressure (?:reading|been|today)|heart rate|pulse", _I)),
    ("examination", re.compile(r"physical exam|on examination|when (?:they|the doctor) examined", _I)),
    ("laboratory", re.compile(r"blood tests?|lab(?:oratory)? |tests? results?|biops|urine test|been tested", _I)),
    ("imaging", re.compile(rf"{subject('imaging')}|\bscans\b|imaging", _I)),
)  # fmt: skip
_OPEN = re.compile(
    r"anything else|tell me (?:more|about)|other symptoms?|what (?:symptoms|brings|brought|seems|is wrong|can i|is the "
    r"(?:matter|problem))|what else|any other (?:changes|issues|problems|concerns|complaints)|what(?:'s| is) (?:going "
    r"on|happening|bothering)|how can i help|main (?:concern|complaint|problem)|additional symptoms|going on\b",
    _I,
)


def topic_by_words(text: str) -> Topic | None:
    """Return the topic that a fact's own words show, or ``None`` where they could be any symptom."""
    lowered = text.lower()
    for topic, pattern in (*_SHOWN_RULES, *_TOLD_RULES):
        if pattern.search(lowered):
            return topic
    if is_negated(text):
        return "negatives"
    if _ONSET.search(text):
        return "onset"
    return "character" if _CHARACTER.search(text) else None


def shown_topic(text: str) -> Topic | None:
    """Return which of vital signs, examination, laboratory, imaging a sentence reports, if any."""
    lowered = text.lower()
    return next((topic for topic, pattern in _SHOWN_RULES if pattern.search(lowered)), None)


@functools.lru_cache(maxsize=100_000)
def topic_of_key(key: str, text: str) -> Topic:
    """Return the topic of a profile's fact: by its key, else negated → negatives, else by its words."""
    by_key = next((topic for topic, pattern in _KEYS if pattern.search(key)), None)
    if by_key is not None:
        return by_key
    if is_negated(text):
        return "negatives"
    found = topic_by_words(text)
    return "associated symptoms" if found is None or found in SHOWN else found


@functools.lru_cache(maxsize=20_000)
def topics_asked(question: str) -> frozenset[Topic]:
    """Return the topics that a question asks for; an open question asks for all symptoms."""
    asked = {topic for topic, pattern in _QUESTIONS if pattern.search(question)}
    if _OPEN.search(question):
        asked |= SYMPTOMS
    return frozenset(asked)


def is_open(question: str) -> bool:
    """Say whether a question names nothing in particular ("anything else?")."""
    return bool(_OPEN.search(question))
