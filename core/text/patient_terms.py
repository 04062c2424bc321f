"""Words of patients and of clinicians, and the translation of clinical words into lay words.

The lexicon of medical terms (data/knowledge/medical_terms.toml): a term matches whole words, ignoring case, British
spelling (ae and oe count as e) and a plural in -s or -es. A form that ends in ``*`` is a stem and matches every word
that begins with it. All forms of an entry are one term. The head of the file lists words that are no terms because
patients use them.

``in_lay_words`` replaces clinical words by common ones within a sentence; it adds and drops no fact. ``is_sayable`` is
the check after it: a patient does not say a text with a medical term, with a value of a device, or in the words of an
examiner or narrator.

``telling`` and ``is_technical`` use the lists of data/knowledge/everyday.toml, for measures that count words. These
lists are wider than the lexicon and stay separate because stored figures depend on them.
"""

from __future__ import annotations

import functools
import hashlib
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from core import paths
from core.errors import AnamnesisError
from core.text.rouge import tokens
from core.text.vocabulary import DENIES, UNITS

FILE = paths.KNOWLEDGE / "medical_terms.toml"
_WORD = re.compile(r"[a-z]+")


@dataclass(frozen=True)
class Term:
    """One entry: its forms in the file (the first is its name), and a patient's words for it."""

    forms: tuple[str, ...]
    plain: str

    @property
    def name(self) -> str:
        return self.forms[0].rstrip("*")


class TermMatch(NamedTuple):
    """A term in a text, with the span of its words."""

    term: Term
    start: int
    end: int


class Lexicon:
    """All terms, with lookup by the words of a text."""

    def __init__(self, terms: tuple[Term, ...]) -> None:
        self.terms = terms
        self._words: dict[str, list[tuple[tuple[str, ...], Term]]] = {}
        self._stems: dict[str, Term] = {}
        for term in terms:
            for form in term.forms:
                if form.endswith("*"):
                    self._stems[_folded(form[:-1])] = term
                else:
                    first, *rest = _WORD.findall(_folded(form))
                    self._words.setdefault(first, []).append((tuple(rest), term))
        sizes = [len(stem) for stem in self._stems]
        self._stem_sizes = range(min(sizes, default=0), max(sizes, default=-1) + 1)
        self._entries = functools.lru_cache(maxsize=50_000)(self._look_up)

    def named_in(self, text: str) -> frozenset[str]:
        words = _WORD.findall(text.lower())
        if not any(self._entries(word) for word in dict.fromkeys(words)):
            return frozenset()
        return frozenset(match.term.name for match in self.find(text))

    def find(self, text: str) -> Iterator[TermMatch]:
        """Yield the terms of a text in order; of several that begin at one word, the longest."""
        words = [(match[0], match.start(), match.end()) for match in _WORD.finditer(text.lower())]
        for place, (word, start, end) in enumerate(words):
            fits = [
                TermMatch(term, start, words[place + len(rest)][2] if rest else end)
                for rest, term in self._entries(word)
                if _follow(rest, [w for w, _, _ in words[place + 1 : place + 1 + len(rest)]])
            ]
            if fits:
                yield max(fits, key=lambda match: match.end)

    def _look_up(self, word: str) -> tuple[tuple[tuple[str, ...], Term], ...]:
        """Return (following words, term) for each term that may begin with a word."""
        plain = _folded(word)
        entries = [
            entry
            for form in dict.fromkeys(_singulars(plain))
            for entry in self._words.get(form, ())
            if form == plain or not entry[0]  # the first word of a phrase has no plural
        ]
        stems = (plain[:size] for size in self._stem_sizes if size <= len(plain))
        return (*entries, *(((), self._stems[stem]) for stem in stems if stem in self._stems))


def _follow(rest: tuple[str, ...], words: list[str]) -> bool:
    return not rest or (
        len(words) == len(rest)
        and all(_folded(word) == form for word, form in zip(words[:-1], rest[:-1], strict=True))
        and rest[-1] in _singulars(_folded(words[-1]))
    )


def _singulars(word: str) -> tuple[str, ...]:
    return (word, *((word[:-1],) if word.endswith("s") else ()), *((word[:-2],) if word.endswith("es") else ()))


@functools.lru_cache(maxsize=50_000)
def _folded(word: str) -> str:
    return word.replace("ae", "e").replace("oe", "e")


@functools.cache
def lexicon(path: Path = FILE) -> Lexicon:
    """Return a lexicon, by default the project's, read once; ``AnamnesisError`` names a faulty entry."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise AnamnesisError(f"The lexicon of medical terms {path} cannot be read ({error}): mend it.") from error
    return Lexicon(tuple(_term(path, forms, plain) for area in content.values() for forms, plain in area.items()))


def _term(path: Path, forms: str, plain: object) -> Term:
    listed = tuple(form.strip() for form in forms.split("|"))
    if not isinstance(plain, str) or not plain or not all(re.fullmatch(r"[a-z]+(?: [a-z]+)*\*?", f) for f in listed):
        raise AnamnesisError(
            f'{path.name}: the entry "{forms}" must be small letters and blanks, forms separated by |, and stand for '
            "plain words."
        )
    return Term(listed, plain)


@functools.cache
def lexicon_hash() -> str:
    """Return a short hash of the lexicon; marks of another lexicon are out of date."""
    text = "\n".join(f"{'|'.join(term.forms)}={term.plain}" for term in lexicon().terms)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


_WORDS: tuple[tuple[str, str], ...] = (
    # whole phrases first
    (r"(?:presented|came) with (?:a )?(?:chief )?complaints? of", "came with"),
    (r"(?:a )?(?:chief )?complaints? of (?=\w)", ""),
    (r"(?:past )?medical history is (?:significant|notable|remarkable|relevant|positive) for", "history includes"),
    (r"(?:past )?medical history is (?:unremarkable|noncontributory|non-contributory|insignificant|non-significant)",
     "history holds no other illness"),
    (r"(?:family|social) history is (?:unremarkable|noncontributory|non-contributory|insignificant)",
     "family has no particular illness"),
    (r"family history is (?:significant|notable|remarkable|positive) for", "family has had"),
    (r"social history is (?:significant|notable) for", "habits include"),
    (r"surgical history is (?:significant|notable|remarkable) for", "operations include"),
    (r"(?:history|review of systems) is (?:significant|notable|remarkable|positive|otherwise positive) for",
     "history includes"),
    (r"no (?:significant|pertinent|relevant) (?:past )?medical history", "no other illness"),
    (r"significant past medical history", "medical history"),
    (r"is (?:significant|notable|remarkable|pertinent) for", "includes"),
    (r"is unremarkable", "is normal"), (r"are unremarkable", "are normal"), (r"unremarkable", "normal"),
    (r"noncontributory", "nothing special"),
    (r"shortness of breath on exertion|dyspnea (?:on|with) exertion|exertional dyspnea|exertional shortness of breath",
     "shortness of breath with effort"),
    (r"(?:on|with) exertion", "with effort"), (r"exertional", "effort-related"),
    (r"dyspnea", "shortness of breath"), (r"dyspneic", "short of breath"),
    (r"paroxysmal nocturnal shortness of breath", "waking up at night short of breath"),
    (r"orthopnea", "trouble breathing when lying flat"),
    (r"tachypnea", "fast breathing"), (r"tachycardia", "a fast heartbeat"), (r"bradycardia", "a slow heartbeat"),
    (r"atrial fibrillation|arrhythmias?", "an irregular heartbeat"),
    (r"hypertension", "high blood pressure"), (r"hypertensive", "with high blood pressure"),
    (r"hypotension", "low blood pressure"),
    (r"presyncope", "near-fainting"), (r"syncopal episodes?", "fainting spells"), (r"syncope", "fainting"),
    (r"myocardial infarctions?", "heart attack"), (r"coronary artery disease", "blocked heart arteries"),
    (r"congestive heart failure", "heart failure"),
    (r"transient ischemic attacks?", "mini-stroke"), (r"deep vein thrombosis|dvt", "a blood clot in the leg"),
    (r"pulmonary embol\w+", "a blood clot in the lung"),
    (r"chronic obstructive pulmonary disease|copd", "chronic lung disease"),
    (r"claudication", "leg pain when walking"),
    (r"hemoptysis", "coughing up blood"), (r"sputum", "phlegm"), (r"rhinorrhea", "a runny nose"),
    (r"non-?productive cough", "dry cough"), (r"productive cough", "cough with phlegm"),
    (r"cough productive of", "cough that brings up"), (r"coryza", "a cold"), (r"epistaxis", "nosebleeds"),
    (r"pharyngitis", "sore throat"), (r"(?:allergic )?rhinitis", "hay fever"), (r"odynophagia", "pain on swallowing"),
    (r"upper respiratory (?:tract )?infections?", "a cold"), (r"laryngitis", "a hoarse voice"),
    (r"gastroesophageal reflux disease|gerd", "acid reflux"), (r"gastroesophageal reflux", "acid reflux"),
    (r"gastroenteritis", "a stomach bug"), (r"dysphagia", "trouble swallowing"), (r"dyspepsia", "indigestion"),
    (r"hematemesis", "vomiting blood"), (r"non-?bilious,? non-?bloody (?:emesis|vomiting)", "vomiting without blood"),
    (r"emesis", "vomiting"), (r"hematochezia", "blood in the stool"), (r"melena", "black stools"),
    (r"steatorrhea", "greasy stools"), (r"tenesmus", "a feeling of needing to go again"),
    (r"flatulence", "gas"), (r"flatus", "gas"), (r"defecation", "passing stool"), (r"feces", "stool"),
    (r"abdominal (?:distension|distention)", "a swollen belly"), (r"distend(?:ed)", "swollen"),
    (r"distension|distention", "bloating"), (r"ascites", "fluid in the belly"),
    (r"abdominal", "belly"), (r"abdomen", "belly"), (r"epigastric", "upper belly"), (r"epigastrium", "upper belly"),
    (r"periumbilical", "around the belly button"), (r"suprapubic", "lower belly"),
    (r"right upper quadrant", "right upper belly"), (r"left upper quadrant", "left upper belly"),
    (r"right lower quadrant", "right lower belly"), (r"left lower quadrant", "left lower belly"),
    (r"(?:retro|sub)sternal", "middle of the chest"), (r"costovertebral", "side of the back"),
    (r"anorexia(?! nervosa)", "no appetite"), (r"malaise", "feeling unwell"), (r"lethargic", "very tired"),
    (r"lethargy", "great tiredness"), (r"fatigued", "tired"), (r"somnolent", "very sleepy"),
    (r"myalgias?", "muscle aches"), (r"arthralgias?", "joint pains"), (r"febrile", "feverish"),
    (r"rigors", "shaking chills"), (r"diaphoresis|hyperhidrosis", "heavy sweating"), (r"diaphoretic", "sweaty"),
    (r"dysuria", "burning while peeing"), (r"hematuria", "blood in the urine"), (r"polyuria", "peeing a lot"),
    (r"nocturia", "getting up at night to pee"), (r"oliguria", "peeing little"), (r"enuresis", "bedwetting"),
    (r"urinary incontinence|incontinence", "leaking urine"), (r"micturition|voiding|urination", "peeing"),
    (r"urethral discharge", "discharge from below"), (r"polydipsia", "great thirst"), (r"polyphagia", "great hunger"),
    (r"menses|menstruation", "periods"), (r"menarche", "the first period"), (r"dysmenorrhea", "painful periods"),
    (r"secondary amenorrhea|amenorrhea|oligomenorrhea", "missed periods"), (r"dyspareunia", "pain during sex"),
    (r"menorrhagia|menometrorrhagia|metrorrhagia", "heavy periods"), (r"postcoital", "after-sex"),
    (r"coitus|sexual intercourse", "sex"), (r"postpartum", "after giving birth"),
    (r"(?:at )?(\d+) weeks['’]? gestation", r"\1 weeks pregnant"),
    (r"weeks['’]? (?:of )?gestation", "weeks of pregnancy"),
    (r",? ?gravida \d+,? para \d+,?", ""), (r",? ?g\dp\d,?", ""),
    (r"nulliparous|nulligravid|multiparous|primigravid", ""),
    (r"spontaneous vaginal delivery|vaginal delivery", "normal birth"), (r"spontaneous abortions?", "miscarriage"),
    (r"pruritic", "itchy"), (r"pruritus", "itching"), (r"erythematous", "red"), (r"erythema", "redness"),
    (r"edematous", "swollen"), (r"edema", "swelling"), (r"cutaneous", "skin"), (r"subcutaneous", "under-the-skin"),
    (r"maculopapular rash", "blotchy, bumpy rash"), (r"macules and papules", "spots and bumps"),
    (r"papules?", "small bumps"), (r"macules?", "flat spots"), (r"plaques?", "raised patches"), (r"nodules", "lumps"),
    (r"nodule", "lump"), (r"pustules?", "pimples"), (r"vesicles?", "small blisters"), (r"bullae", "large blisters"),
    (r"bullous", "blistering"), (r"lesions", "spots"), (r"lesion", "spot"), (r"eruption", "rash"),
    (r"urticaria", "hives"), (r"petechiae", "tiny red dots"), (r"ecchymos[ei]s", "bruises"),
    (r"purpura", "purple spots"),
    (r"alopecia", "hair loss"), (r"hirsutism", "unwanted hair growth"), (r"ulcerations?", "open sores"),
    (r"ulcerated", "open"), (r"excoriations", "scratch marks"), (r"hyperpigmented", "dark"), (r"hypopigmented", "pale"),
    (r"hyperpigmentation", "dark skin"), (r"hypopigmentation", "pale skin"), (r"violaceous", "purple"),
    (r"cyanosis", "blue skin"), (r"cyanotic", "blue"), (r"pallor", "paleness"), (r"icterus", "yellow eyes"),
    (r"dermatitis", "skin rash"), (r"cellulitis", "a skin infection"), (r"purulent", "pus-filled"),
    (r"exudates?", "oozing"), (r"erosions", "raw spots"), (r"topical (?=\w+)", ""), (r"indurated", "hard"),
    (r"nontender|non-tender", "not sore"), (r"asymptomatic", "without complaints"), (r"nocturnal", "night-time"),
    (r"bilaterally|bilateral", "on both sides"), (r"unilateral", "one-sided"), (r"proximal", "upper"),
    (r"distal", "lower"), (r"trunk", "body"), (r"axillae|axilla", "armpit"), (r"axillary", "armpit"),
    (r"inguinal", "groin"), (r"lower extremit(?:y|ies)", "legs"), (r"lower-extremity", "leg"),
    (r"upper extremit(?:y|ies)", "arms"), (r"extremities", "arms and legs"), (r"extremity", "limb"),
    (r"periorbital", "eye"), (r"perianal", "bottom"), (r"dorsal", "back"), (r"dorsum", "back"),
    (r"lumbar", "lower back"), (r"thoracic", "chest"), (r"frontal", "forehead"),
    (r"paresthesias?", "pins and needles"), (r"diplopia", "double vision"), (r"photophobia", "trouble with light"),
    (r"tinnitus", "ringing in the ears"), (r"dysarthria", "slurred speech"), (r"ataxia", "an unsteady walk"),
    (r"gait", "walk"), (r"hemiparesis|hemiplegia", "weakness on one side"), (r"otalgia", "earache"),
    (r"otitis media|otitis", "ear infection"), (r"lymphadenopathy", "swollen glands"), (r"lacrimation", "watery eyes"),
    (r"generalized tonic-clonic seizures?|tonic-clonic seizures?", "seizure"),
    (r"(?:type (?:1|2|i|ii) )?diabetes mellitus(?: type (?:1|2))?", "diabetes"),
    (r"hyperlipidemia|hypercholesterolemia|dyslipidemia", "high cholesterol"),
    (r"hypothyroidism", "an underactive thyroid"), (r"hyperthyroidism", "an overactive thyroid"),
    (r"hyperglycemia", "high blood sugar"), (r"hypoglycemia", "low blood sugar"), (r"goiter", "swollen thyroid"),
    (r"malignanc(?:y|ies)", "cancer"), (r"metastatic", "spread"), (r"adenocarcinoma|carcinoma", "cancer"),
    (r"renal", "kidney"), (r"hepatic", "liver"), (r"gastric", "stomach"), (r"gastrointestinal", "stomach and bowel"),
    (r"pulmonary", "lung"), (r"nephrolithiasis", "kidney stones"), (r"cholelithiasis", "gallstones"),
    (r"cholecystitis", "gallbladder trouble"), (r"cholecystectomy", "an operation to remove the gallbladder"),
    (r"neuropathy", "nerve damage"), (r"intravenous(?:ly)?", "injected"), (r"intramuscular", "injected"),
    (r"nsaids?", "painkillers"), (r"analgesics?", "painkillers"), (r"corticosteroids?|glucocorticoids?", "steroids"),
    (r"antihypertensives?(?: medications?)?", "blood pressure medicine"), (r"anticoagulants?", "blood thinners"),
    (r"radiates", "spreads"), (r"radiating", "spreading"), (r"radiate", "spread"), (r"radiated", "spread"),
    (r"exacerbated", "made worse"), (r"exacerbates", "makes worse"), (r"exacerbations?", "worse spells"),
    (r"alleviated", "eased"), (r"alleviates", "eases"), (r"postprandial", "after-meal"), (r"lacerations?", "cuts"),
    (r"contusions?", "bruises"), (r"abscesses", "boils"), (r"abscess", "boil"), (r"congenital", "from birth"),
    (r"ideation", "thoughts"), (r"anhedonia", "no joy in things"), (r"prophyla\w+", "prevention"),
    (r"immunocompromised", "with weak defences"), (r"benign", "harmless"), (r"colicky", "cramping"),
    (r"insidious", "slow"), (r"intermittently", "on and off"), (r"intermittent", "on-and-off"),
    (r"progressively", "steadily"), (r"physician", "doctor"), (r"physicians", "doctors"), (r"medications", "medicines"),
    (r"medication", "medicine"), (r"excised|resected", "cut out"), (r"systemic", "whole-body"),
    (r"fetal movements?", "movements of the baby"), (r"fetus", "baby"), (r"anterior", "front of the"),
    (r"posterior", "back of the"), (r"regurgitation", "spitting up"), (r"atrophy", "wasting"), (r"serum", "blood"),
)  # fmt: skip
"""(Pattern of a vignette, a patient's words), applied in this order."""
_EXAMINERS = re.compile(
    rf"\b(?:temperature|pulse|pressure|rate)\b[^.]{{0,25}}\d|\bmm ?hg\b|\d\s?/ ?min\b|\d\s*(?:{UNITS}|kg/m)|"
    r"\b(?:on|upon) (?:physical |further )?exam\w*|\bexam(?:ination)? (?:shows?|reveals?|is|was)|percentile|"
    r"\bvital signs?\b|\bvitals\b|\bauscultat|\bpalpat|\bgcs\b|\bapgar|\bthe patient\b|\byou\b|\bfigure\b|\bphotograph|"
    r"\b(?:is|are) (?:shown|ordered|pending|drawn|obtained|initiated|informed|counsel\w+)\b|"
    r"\bthe (?:physician|doctor|nurse|team|resident|dermatologist|pediatrician)(?:s|['’]s)? (?:\w+ )?(?:orders?|"
    r"performs?|decides?|suspects?|notes?|refers?|prescribes?|explains?|asks?|tells|counsels|recommends?|observes?|"
    r"considers?|discusses)\b|"
    r"\bI'm I\b|\bbecause of (?:at|to|in|on|my (?:obstetrician|doctor|pediatrician))\b|\bdon't have ever\b|\bI add\b|"
    r"\b(?:he|she) (?:reports|states|admits|does notice)\b|"
    rf"\b(?:{DENIES}|diagnosis is|is diagnosed with|differential|presents to|presents with|presented|presentation|"
    r"clinically|etiology|treatment "
    r"with|patient['’]s|review of systems)\b",
    re.IGNORECASE,
)


@functools.cache
def _lay_patterns() -> list[tuple[re.Pattern[str], str]]:
    # compiled on first use, because most commands never need them
    return [(re.compile(rf"\b(?:{written})(?!\w)", re.IGNORECASE), lay) for written, lay in _WORDS]


@functools.lru_cache(maxsize=20_000)
def in_lay_words(text: str) -> str:
    """Return a sentence with common words in place of clinical ones."""
    plain = text
    for pattern, lay in _lay_patterns():
        plain = pattern.sub(lay, plain)
    plain = re.sub(r"\b(an?) (an?|the|no) (?=\w)", r"\2 ", plain, flags=re.IGNORECASE)
    plain = re.sub(r"\ba (?=(?:[aeio]|un)\w)(?!(?:one|once|uni))", "an ", plain)
    plain = re.sub(r"\ban (?=[bcdfgjklmnpqrstvwxyz])", "a ", plain)
    plain = re.sub(r" +([,.;])", r"\1", " ".join(plain.split()))
    return plain[:1].upper() + plain[1:] if text[:1].isupper() else plain


@functools.lru_cache(maxsize=20_000)
def is_sayable(text: str) -> bool:
    """Say whether a patient could say this: no medical term, no value of a device, no words of examiner or narrator."""
    return not _EXAMINERS.search(text) and not lexicon().named_in(text)


_SHORTEST = 6
"""Minimum number of letters of a word with a technical ending."""


@functools.cache
def _everyday() -> dict[str, Any]:
    return tomllib.loads((paths.KNOWLEDGE / "everyday.toml").read_text(encoding="utf-8"))


@functools.cache
def _everyday_words(name: str) -> frozenset[str]:
    return frozenset(_everyday()[name].split())


@functools.cache
def _meanings() -> tuple[frozenset[str], dict[str, str]]:
    """Return the empty stems, and stem → representative stem of its synonyms; the first group of a stem counts."""
    meaning: dict[str, str] = {}
    for group in _everyday()["same"]:
        first, *others = tokens(group)
        for stem in (first, *others):
            meaning.setdefault(stem, first)
    return frozenset(tokens(_everyday()["empty"])) | _everyday_words("empty"), meaning


@functools.lru_cache(maxsize=50_000)
def telling(text: str) -> frozenset[str]:
    """Return the content stems of a text: without empty words, with one stem for synonyms."""
    empty, meaning = _meanings()
    return frozenset(meaning.get(stem, stem) for stem in tokens(text) if stem not in empty)


@functools.lru_cache(maxsize=100_000)
def is_technical(word: str) -> bool:
    """Say whether a lower-case word is medical: listed, or with a listed ending and not an everyday word."""
    if word in _everyday_words("everyday"):
        return False
    return word in _everyday_words("technical") or (
        len(word) >= _SHORTEST and word.endswith(tuple(_everyday_words("endings")))
    )


def words(text: str) -> list[str]:
    """Return the words of a text, lower case, without numbers."""
    return _WORD.findall(text.lower())
