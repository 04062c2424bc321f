"""What the clinical staff can tell, by rule: a vignette's results in its own words, each under a short name.

A value is always a piece of the vignette as it stands; lists of vital signs and laboratory values are cut into one
value each. Sentences that only announce results, or refer to a picture, are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from core.case import Fact, Section
from core.text.profile.suitability import speaks_of_picture
from core.text.topics import shown_topic

_I = re.IGNORECASE
_VITALS: tuple[tuple[str, str], ...] = (
    ("temperature", r"temperature|\btemp\b|afebrile|febrile|°"),
    ("blood pressure", r"blood pressure|\bbp\b|mm ?hg"),
    ("pulse", r"\bpulse|heart rate|\bhr\b"),
    ("respirations", r"respirat|\brr\b"),
    ("oxygen saturation", r"saturation|\bs[pa]o2\b|\bo2 sat"),
    ("body mass index", r"\bbmi\b|body mass"),
    ("height and weight", r"percentile|\bweighs?\b|\bheight\b|\d ?kg\b|\btall\b"),
)
_REGIONS: tuple[tuple[str, str], ...] = (
    ("general appearance", r"\bappears?\b|distress|well[- ]nourished|lethargic|ill[- ]appearing|^(?:he|she) looks"),
    ("mental status", r"mental status|\boriented\b|\balert\b|\bmood\b|\baffect\b|speech|glasgow"),
    ("eyes", r"\beyes?\b|conjunctiv|scler|pupil|fundus|fundoscop|visual|vision|retina|cornea|extraocular|eyelid"),
    ("ears, nose and throat",
     r"\bears?\b|tympanic|\bnose\b|nasal|throat|pharyn|tonsil|oral|mouth|tongue|mucosa|gums|otoscop"),
    ("lymph nodes", r"lymph"),
    ("neck", r"\bneck\b|thyroid|jugular|goiter|meningism"),
    ("heart", r"heart|cardiac|cardiovascular|murmur|gallop|\bs[1-4]\b|systolic|friction rub|precordi"),
    ("lungs", r"lung|breath sounds|crackle|wheez|rales|rhonchi|percussion|pulmonary|chest|respiratory"),
    ("breasts", r"breast|nipple"),
    ("abdomen", r"abdom|bowel sounds|liver|spleen|hepat|organomegaly|quadrant|epigastr|suprapubic|fundal|flank"),
    ("pelvis and genitals", r"pelvic|vagin|cervix|cervical os|uter|adnex|testic|testis|scrot|peni|genital|inguinal|"
                            r"rectal|"
     r"prostate|perine|speculum|vulva"),
    ("nervous system", r"neurolog|reflex|strength|sensation|cranial nerve|gait|romberg|babinski|tremor|rigid|clonus|"
                       r"ataxia|"
     r"weakness|muscle (?:tone|bulk)|hemipar|proprioception|vibration"),
    ("joints and limbs", r"joint|knee|\bhips?\b|shoulder|wrist|finger|\btoes?\b|\bfoot\b|\bfeet\b|ankle|elbow|"
                         r"extremit|\blegs?\b|"
     r"\barms?\b|\bhands?\b|spine|spinal|range of motion|edema|calf|thigh|\bback\b|limb"),
    ("skin", r"skin|rash|papul|plaque|macul|vesic|nodul|erythem|lesion|ulcer|petechi|purpur|bulla|scal[ey]|nails?\b|"
             r"hair|"
     r"jaundice|pallor|scalp|bruis|ecchymos|diaphor"),
)  # fmt: skip
_IMAGING: tuple[tuple[str, str], ...] = (
    ("echocardiogram", r"echocardio"),
    (
        "chest x-ray",
        r"(?:chest|thora\w*)[^.]{0,20}(?:x-?ray|radiogra|film)|(?:x-?ray|radiogra\w+) of (?:the|his|her) chest",
    ),
    ("x-ray", r"x-?ray|radiogra"),
    ("CT scan", r"\bct\b|computed tomogra|computerized tomogra"),
    ("MRI", r"\bmri\b|magnetic resonance"),
    ("ultrasound", r"ultraso|sonogra|doppler"),
    ("angiogram", r"angiogra"),
    ("mammogram", r"mammogra"),
)
_OTHER: tuple[tuple[str, str], ...] = (
    ("electrocardiogram", r"electrocardiogra|\becg\b|\bekg\b"),
    ("electroencephalogram", r"electroencephal|\beeg\b"),
    ("nerve conduction and muscle tests", r"electromyo|nerve conduction"),
    ("biopsy", r"biops|histolog|histopath|patholog|immunofluoresc"),
    ("lumbar puncture", r"lumbar puncture|cerebrospinal|\bcsf\b"),
    ("lung function", r"spirometr|pulmonary function|\bfev"),
    ("endoscopy", r"scopy|scopic"),
    ("skin test", r"skin (?:prick|test)|patch test|tuberculin|purified protein"),
    ("hearing test", r"audiometr"),
    ("microscopy", r"microscop|smear|stain"),
)
_GENERAL: dict[Section, str] = {
    "vital_signs": "vital signs", "examination": "physical examination", "laboratory": "laboratory tests",
    "imaging": "imaging", "other_tests": "other tests",
}  # fmt: skip
_TABLES: dict[Section, tuple[tuple[str, str], ...]] = {
    "vital_signs": _VITALS, "examination": _REGIONS, "imaging": _IMAGING, "other_tests": _OTHER,
}  # fmt: skip
_NAMES = {section: tuple((name, re.compile(pattern)) for name, pattern in table) for section, table in _TABLES.items()}
_NEXT_VITAL = re.compile(
    r"(?:,\s+(?:and\s+)?|\s+and\s+)(?:with\s+)?(?=(?:an?\s+|the\s+|his\s+|her\s+)?(?:heart rate|pulse|blood pressure|"
    r"respirat\w+(?: rate)?|oxygen saturation|body temperature|temperature|bmi|body mass index|o2 saturation|spo2|"
    r"weighs)\b)",
    _I,
)
_NEXT_VALUE = re.compile(
    r";\s+|,\s+(?:and\s+)?(?=(?:an?\s|the\s|his\s|her\s)?[A-Za-z][\w/()\- ]{1,45}?\s(?:(?:level|count|concentration|"
    r"activity) )?(?:is|are|was|were|of|shows|show)\s+\S)|,\s+(?:and\s+)?(?=[A-Za-z][\w/() +-]{0,30}(?::\s*|"
    r"\s)[<>]?\d)",
)
_NEXT_CLAUSE = re.compile(
    r";\s+|,?\s+and\s+(?=(?:there|the|his|her|no|an?)\s[^,;]{2,60}?\b(?:is|are|was|were|has|have|shows?|reveals?)\b)|"
    r",\s+(?=(?:there|his|her|the)\s[^,;]{2,60}?\b(?:is|are|was|were|has|have|shows?|reveals?)\b)",
    _I,
)
_VALUE = re.compile(
    r"^(?:(?:\w+ )?(?:laboratory |blood |serum |urine )?(?:studies|tests?|results?|findings|work|values) (?:show|"
    r"reveal|demonstrate|include|are|is)(?:s|d|ed)?(?: notable| significant| remarkable)?(?: for)? )?(?:and |an? |"
    r"the |his |her |also |serum:? )?(?P<name>[A-Za-z][\w/()+'’\- ]{0,45}?)\s*(?:(?:level|concentration|activity|"
    r"values?)\s+)?(?::|\b(?:is|are|was|were|of|shows?|reveals?|demonstrates?|positive|negative)\b|(?=[<>]?\s?\d))",
    _I,
)
_ANNOUNCES = re.compile(
    r"(?:as follows|shown below|seen below|given below|below|the following(?: \w+){0,3}|obtained|ordered|performed|"
    r"drawn|pending|are shown)\s*[:.]?$|:$",
    _I,
)
_MOST_NAME_WORDS = 5
_LATER = "further course"
"""Name of what follows results and is none."""
_BARE = re.compile(r"^(?:and|also)\s+(?=\w)", _I)


_RESULT = re.compile(
    r"^(?:up)?on (?:physical )?exam(?:ination)?\b|\b(?:vitals?|vital signs|exams?|examinations?|urinalysis|"
    r"toxicology|labs|laboratory|blood count|blood tests?|cultures?)\b(?: \w+){0,3} (?:is|are|was|were|shows?|showed|"
    r"reveals?|revealed)\b(?: \w+){0,4} (?:normal|within|negative|positive|unremarkable|stable|benign)\b",
    _I,
)
"""What says a result wherever it stands, also among what somebody tells."""


def is_result(text: str) -> bool:
    """Say whether a piece of a history is a result, which the patient of AutoMedic does not hold."""
    return bool(_RESULT.search(text))


def result_fact(text: str) -> Fact:
    """Return a result that stood among the history as the staff's."""
    topic = shown_topic(text)
    section: Section = "laboratory" if topic == "laboratory" else "imaging" if topic == "imaging" else "examination"
    return Fact(key=_key(section, text, ""), value=text, lay=text, section=section)


def shown_facts(shown: Iterable[tuple[Section, str]]) -> Iterator[Fact]:
    """Yield the results of sorted sentences in their order."""
    under = ""
    for section, sentence in shown:
        body = " ".join(sentence.split()).rstrip(" .;,")
        if speaks_of_picture(sentence) or _announces(body):
            under = body.rstrip(":").lower() if body.endswith(":") and len(body.split()) <= 2 else ""
            continue
        for piece in _pieces(section, body):
            own: Section = "laboratory" if section == "imaging" and shown_topic(piece) == "laboratory" else section
            yield Fact(key=_key(own, piece, under), value=piece, lay=piece, section=own)


def _announces(body: str) -> bool:
    return bool(_ANNOUNCES.search(body)) and not re.search(r"\d", body)


def _pieces(section: Section, body: str) -> Iterator[str]:
    cut = {"vital_signs": _NEXT_VITAL, "laboratory": _NEXT_VALUE}.get(section, _NEXT_CLAUSE)
    for piece in cut.split(body):
        text = _BARE.sub("", piece.strip(" ,.;"))
        if len(text) >= 3 and re.search(r"[A-Za-z]{2}", text):
            yield text


def _key(section: Section, piece: str, under: str) -> str:
    if section == "laboratory":
        found = _VALUE.match(piece)
        name = found["name"].strip().lower() if found else ""
        if name and len(name.split()) <= _MOST_NAME_WORDS:
            return f"{under} {name}" if under and under not in name else name
        return _GENERAL[section]
    lowered = piece.lower()
    at = {name: found.start() for name, pattern in _NAMES[section] if (found := pattern.search(lowered))}
    if at:
        return min(at, key=lambda name: at[name])
    return _GENERAL[section] if section in ("vital_signs", "examination") or shown_topic(piece) else _LATER
