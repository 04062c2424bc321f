"""What a text says, in a form in which facts and vignettes can be compared.

Everyday and clinical words that mean the same are one concept, with whether it is denied (``core.text.negation``):
phrases are replaced before words are stemmed; single words are joined by stem. Where a lay word is wider than the
clinical one ("sore" and "pain"), the wider reading is taken: what counts is whether something was spoken of, not how
well it was put. Times, ages and weights are left out. All of it is kept by text, for the same texts come again and
again.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from core.knowledge.base import knowledge
from core.text.negation import NEGATORS, is_content, stem_of, tokens_of, words_in
from core.text.quantities import without_quantities
from core.text.vocabulary import DENIED, DENIES, DENY, alternatives_of, relatives

_TERMS: tuple[tuple[str, str, str], ...] = (
    ("dysmenorrh", r"dysmenorrh\w+", "menses pain"),
    ("menorrh", r"menorrhagia", "menses blood heavy"),
    ("metrorrh", r"metrorrhagia", "menses blood"),
    ("dyspareunia", r"dyspareunia", "sexual pain"),
    ("dysuria", r"dysuria", "urine pain burn"),
    ("maturia", r"ha?ematuria", "urine blood"),
    ("matochezia|bloody", r"ha?ematochezia|bloody (?:stools?|poop)", "stool blood"),
    ("melena|melaena|tarry", r"melena|melaena|tarry stools?", "stool black"),
    ("matemesis", r"ha?ematemesis", "vomit blood"),
    ("moptysis", r"ha?emoptysis", "cough blood"),
    ("epistaxis|nose", r"epistaxis|nose ?bleeds?\w*|nose (?:has been |is |was |keeps? )?bleeding", "nosebleed"),
    ("otalgia|ear", r"otalgia|ear ?aches?", "ear pain"),
    ("arthralgia", r"arthralgias?", "joint pain"),
    ("odynophagia", r"odynophagia", "swallow pain"),
    ("nocturia", r"nocturia", "urine night"),
    ("polyuria", r"polyuria", "urine frequent"),
    ("polydipsia", r"polydipsia", "thirst"),
    ("polyphagia", r"polyphagia", "goodappetite"),
    ("fatigabil|fatiguabil", r"fatigu?abil\w+", "fatigue"),
    ("rhinitis", r"(?<!allergic )rhinitis", "rhinorrhea congestion"),
    ("phlegm|expectorat", r"phlegm|expectorat\w+", "sputum"),
    ("defecat", r"defecat\w+", "stool"),
    ("light", r"sensitiv\w+ to (?:bright )?light|light (?:hurts|bothers) (?:my|his|her) eyes", "photophobia"),
    ("ringing", r"ringing in (?:my|his|her|the) ears?", "tinnitus"),
    ("purulen|pyuria", r"pyuria|purulen\w+", "discharge"),
    ("ecchymos|contusion|black and", r"ecchymos\w+|contusions?|black and blue", "bruise"),
    ("paresis", r"(?:hemi|para)?paresis", "weak"),
    ("altered sensation", r"altered sensations?", "numb tingling"),
    ("mental status|orient|self",
     r"mental status changes?|altered mental status|disorient\w+|not (?:quite )?(?:like )?(?:my|him|her)self",
     "confusion"),
    ("hyperhidrosis|diaphore", r"hyperhidrosis|diaphoresis", "sweat"),
    ("cephalgia", r"cephalgia", "headache"),
)  # fmt: skip
"""(what a text must hold for the term to be looked for, pattern, what stands for it)."""
_READY = tuple(
    (clue, re.compile(rf"(?<![a-z])(?:{pattern})"), f" {stands} ")
    for clues, pattern, stands in _TERMS
    for clue in clues.split("|")
)


def spelt_out(text: str) -> str:
    """Return lower-case text with clinical terms replaced by everyday concepts."""
    for clue, pattern, stands in _READY:
        if clue in text:  # far quicker than to search for every term
            text = pattern.sub(stands, text)
    return text


PHRASES: tuple[tuple[str, str], ...] = (
    (r"\bor (?:had|been)\b", "or"),
    (r"long[- ]term", "chronic"),
    (r"(?:lost|los(?:e|ing)) (?:a |an )?(?:\w+ )?(?:amounts? of|deal of) weight", "weightloss"),
    (r"medical(?:ly)?\b", " "),
    (r"(?:feel(?:ing)? like |think )(?:i(?:'m| am| was) (?:going to |about to |gonna ))?"
     r"(?:throw(?:ing)? up|vomit(?:ing)?|puk(?:e|ing))", "nausea"),
    (r"hypercholesterol\w+", "cholesterol"),
    (r"anorexia\b(?! nervosa)", "appetite loss"),
    (r"aside from|apart from|other than", "except"),
    (r"bump(?:s|ed|ing)? into", "hit"),
    (r"(?:missed|spontaneous) abortions?|pregnancy loss", "miscarriage"),
    (r"blood (?:tests?|work)\b|lab(?:oratory)? (?:tests?|work|studies)", "labtest"),
    (r"take anything|taking anything|take any\b(?! \w)|on anything", "medication"),
    (r"(?:takes?|taking|on) nothing", "no medication"),
    (r"the pill\b|birth control(?: pills?)?|oral contraceptives?(?: pills?)?|contraceptive pills?", "contraceptive"),
    (r"water (?:pill|tablet)s?|hydrochlorothiazide|chlorthalidone|furosemide|diuretics?", "diuretic"),
    (r"blood thinners?|anticoagula\w+", "anticoagulant"),
    (r"(?:could|can)(?: ?n[o']t|n't) (?:really )?(?:catch (?:my|his|her|your|their) breath|breathe(?! right))",
     "dyspnea"),
    (r"weight (?:has )?changed?|changes? in (?:your |his |her )?weight|has your weight changed",
     "weightloss weightgain"),
    (r"more and more|worse and worse|getting worse", "worse"),
    (r"short(?:ness)? of breath|out of breath|catch (?:my|his|her|your|their) breath|breathless(?:ness)?|"
     r"dyspn\w+|winded|"
     r"(?:difficulty|trouble|hard time|hard to) breath(?:ing|e)|(?:can't|can not|cannot|couldn't) breathe(?! right)|"
     r"difficult to breathe", "dyspnea"),
    (r"heart (?:has been |is |was |keeps |been )*(?:racing|pounding|fluttering)|racing heart|(?:felt|feel|feeling) my "
     r"heart racing|heart(?:'s| has) been racing|palpitations?|heart beats? fast|skip(?:s|ped|ping)? beats",
     "palpitation"),
    (r"threw up|throw(?:s|ing|n)? up|puk(?:e|ed|ing)|vomit\w*|emesis|bring(?:ing)? up (?:my )?food", "vomit"),
    (r"fe(?:el|els|lt|eling) sick(?: to (?:my|his|her) stomach)?|nause\w+|queasy|sick to my stomach", "nausea"),
    (r"high blood pressure|hypertensi\w+|blood pressure (?:is|was|runs) high|(?<=for )(?:my )?blood pressure\b",
     "hypertension"),
    (r"loose (?:stools?|bowel movements?)|watery stools?|runny (?:stools?|poop)|diarrh\w+|the runs\b", "diarrhea"),
    (r"bowel movements?|open(?:ed|ing)? (?:his|her|my|your) bowels|pooped|poo(?:p|ing|s)?\b|stools?|fec\w+", "stool"),
    (r"pass(?:ed|ing)? (?:any )?(?:gas|wind)|flatus", "gas"),
    (r"blood clots?|\bclots?\b|thrombos[ie]s", "clot"),
    (r"(?:gain(?:ed|ing)?|put(?:ting)? on|added) (?:about |around |some |a lot of |\w+ )?(?:of )?(?:weight|"
     r"pounds|kilos|"
     r"kilograms|kgs?|lbs?)|weight gain", "weightgain"),
    (r"(?:lost|los(?:e|ing)|dropped|shed) (?:about |around |some |a lot of |a couple of |a few |any |\w+ )?(?:of )?"
     r"(?:weight|pounds|kilos|kilograms|kgs?|lbs?)|weight loss|loss of weight", "weightloss"),
    (r"eat(?:ing)? like a horse|good appetite|big appetite|appetite is (?:good|great|fine)", "goodappetite"),
    (r"out of nowhere|all of a sudden|sudden(?:ly)?|came on fast|abrupt(?:ly)?", "sudden"),
    (r"comes? and goes?|on and off|off and on|intermittent(?:ly)?|in waves", "waves"),
    (r"shoots? (?:down )?(?:in)?to|travels? (?:down )?to|mov(?:es|ed|ing) (?:down )?to|goes (?:down |up )?(?:in)?to|"
     r"radiat\w+|spread\w*", "spread"),
    (r"go anywhere else|appear elsewhere|spread anywhere", "spread"),
    (r"talk(?:ing)? through (?:my|his|her) nose|nasal (?:speech|voice)", "speech nasal"),
    (r"seeing (?:double|two)|see(?:s)? (?:double|two)|double vision|diplopia", "diplopia"),
    (r"(?:had|have|has|having|got|took) (?:my|his|her|the|your) \w+ (?:out|removed|taken out)", "surgery"),
    (r"runny nose|nose (?:has been |is |was |been )*(?:running|runny)|rhinorrh\w+", "rhinorrhea"),
    (r"stuffy nose|nose is (?:stuffed|blocked)|blocked nose|nasal congestion|congested", "congestion"),
    (r"felt? (?:a bit |a little |very |really |kind of |somewhat )?hot\b(?! all)|(?:high|slight|elevated|raised) "
     r"temperature|running a temperature|had a temperature|low[- ]grade fever|fever\w*|febrile|pyrexia", "fever"),
    (r"boiling|hot all the time|heat intoleran\w+|always hot", "heat"),
    (r"can't sleep|can not sleep|cannot sleep|(?:trouble|difficulty) sleeping|sleeps? (?:badly|poorly)|insomnia|not "
     r"sleep(?:ing)? well", "insomnia"),
    (r"high (?:blood )?sugar|diabet\w+|sugar disease", "diabetes"),
    (r"heart attacks?|myocardial infarctions?", "infarction"),
    (r"peeing|pee\b|pees|urinat\w+|urin(?:e|ary)|pass(?:ing)? water|wee\b", "urine"),
    (r"periods?|menstrua\w+|menses|monthly bleeding|menstrual cycles?", "menses"),
    (r"keeps? drooping|droop\w*|ptosis", "droop"),
    (r"bed ?ridden|stuck in bed|confined to bed|in bed (?:all|for)", "bedridden"),
    (r"like a seal|bark(?:ing|s|y)?", "barking"),
    (r"up to date|all (?:of )?(?:my|his|her|the) (?:shots|vaccin\w+)|fully (?:vaccinated|immuni[sz]ed)|complete\b",
     "complete"),
    (r"vaccin\w+|immuni[sz]\w+|\bshots\b|\bjabs?\b", "vaccination"),
    (r"in lines?|in a line|in a row", "line"),
    (r"no one|nobody|no-one|not anyone", "nobody"),
    (r"any(?:one|body) else|some(?:one|body) else", "nobody"),
    (r"purple|violaceous|violet", "purple"),
    (r"inside (?:of )?(?:my|the|her|his) cheeks?|insides of (?:my|the|her|his) cheeks|inner cheeks?", "cheek inside"),
    (r"ach(?:e|es|ing|y) all over|muscle (?:aches?|pains?)|myalgia\w*|sore muscles|muscles ache|body aches?",
     "myalgia"),
    (r"head ?aches?|migraines?|head (?:hurts|pounds)|pain in (?:my|the|his|her) head", "headache"),
    (r"hair (?:loss|thinning|falling out)|los(?:t|ing) (?:my |his |her |your )?hair|alopecia", "hairloss"),
    (r"hay fever|allergic rhinitis", "hayfever"),
    (r"whistl\w+|wheez\w+", "wheeze"),
    (r"(?:whenever|when) (?:he|she|i|they) (?:runs?(?: around)?|exercis\w+)|(?:after|with) (?:running|exercise)|"
     r"exertion\w*|"
     r"physical activity", "exercise"),
    (r"bigger|larger|gr(?:ew|own|owing)|expand\w*|increas\w+ in size|enlarg\w+", "larger"),
    (r"big toe|great toe|hallux", "bigtoe"),
    (r"(?:same thing|similar (?:attack|episode|pain)s?|same kind of|happened (?:to (?:me|you) )?before|had this before|"
     r"this happened)", "before"),
    (r"upper right|right upper", "right upper"),
    (r"shoulder ?blade|scapula\w*", "scapula"),
    (r"wak(?:es?|ing|en) up|woke(?: up)?|get up\b|gets up\b|morning|waking", "morning"),
    (r"end of (?:the |my )?(?:school |work)?day|time the kids go home|evenings?|later in the day", "evetime"),
    (r"lying (?:flat|down)|lie (?:flat|down)|on my back", "lying"),
    (r"lean(?:s|ing)? forward|sit(?:s|ting)? up", "leaning"),
    (r"breath(?:e|es|ing)? in|deep breaths?|inspirat\w+|inhal(?:e|ing)", "inspiration"),
    (r"nearly (?:fine|well)|almost (?:fine|well)|(?:good|fine|better|well) again", "better"),
    (r"kidney stones?|nephrolith\w+|renal (?:stone|calcul)\w*", "kidneystone"),
    (r"ulcers?|sores\b|erosions?|\ba sore\b", "ulcer"),
    (r"pins and needles|tingl\w+|paresthesia\w*|prickl\w+", "tingling"),
    (r"passed out|pass(?:ing)? out|faint\w*|syncope|blacked out|lost consciousness|loss of consciousness", "syncope"),
    (r"light[- ]?headed\w*|dizz\w+|vertigo|woozy", "dizzy"),
    (r"no energy|run ?down|worn out|tired\w*|fatigue\w*|exhaust\w+|letharg\w+|malaise|low energy", "fatigue"),
    (r"good health|always been healthy|pretty healthy|otherwise healthy|healthy|unremarkable|non-?contributory|"
     r"no (?:other )?"
     r"(?:medical|health) (?:problems?|conditions?|issues?|history)|insignificant", "healthy"),
    (r"over[- ]the[- ]counter", "otc"),
    (r"sleep(?:s|ing)? (?:with|around)|sexually active|unprotected (?:sex|intercourse)|sexual (?:partners?|intercourse|"
     r"activity)|having sex", "sexual"),
)  # fmt: skip
"""(pattern, what stands for it), applied in this order to lower-case text."""

GROUPS: tuple[tuple[str, str], ...] = (
    ("pain", "hurt hurts painful ache aches aching achy sore soreness sting stings tender tenderness cramp "
     "cramps cramping "
             "killing discomfort pains"),
    ("abdomen", "belly stomach tummy abdominal gut epigastric"),
    ("flank", "side loin"),
    ("itch", "itchy itching itches pruritus pruritic scratchy"),
    ("bump", "bumps papule papules lump lumps nodule nodules pimple pimples spots spot lesion lesions"),
    ("rash", "eruption rashes ring patch patches exanthem"),
    ("blister", "blisters vesicle vesicles bulla bullae bullous"),
    ("red", "redness erythema erythematous reddish"),
    ("swell", "swollen swelled swelling swells edema edematous puffy bloated distended distension blown ballooned"),
    ("medication", "medicine medicines meds medications drug drugs tablet tablets pill pills prescription "
     "prescriptions"),
    ("surgery", "operation operations surgeries surgical operated"),
    ("smoke", "smoker smoking smokes smoked cigarette cigarettes tobacco nonsmoker"),
    ("father", f"{relatives('parents', of='male')} paternal".replace("|", " ")),
    ("mother", f"{relatives('parents', of='female')} maternal".replace("|", " ")),
    ("children", "kids kid child toddler"),
    ("family", "relatives relative relations"),
    ("harsh", "raspy"),
    ("noise", "sound sounds noises noisy"),
    ("hoarse", "croaky raspy hoarseness"),
    ("swallow", "swallows swallowing drank juice"),
    ("tremor", "shake shakes shaking trembling tremble tremulous shaky"),
    ("fat", "greasy fatty fried oily"),
    ("forest", "woods wood woodland outdoors"),
    ("remember", "recall recalls"),
    ("bite", "biting bitten bites"),
    ("joint", "joints articular knee knees ankle ankles"),
    ("stiff", "stiffness rigid rigidity"),
    ("numb", "numbness"),
    ("weak", "weakness weaker"),
    ("blood", "bleeding bloody bleed bleeds bled"),
    ("cancer", "malignancy tumor tumors carcinoma"),
    ("kidney", "renal kidneys"),
    ("liver", "hepatic"),
    ("lung", "lungs pulmonary"),
    ("heart", "cardiac"),
    ("skin", "cutaneous dermatologic"),
    ("eyelid", "lid lids eyelids"),
    ("leg", "legs shin shins calf calves thigh thighs lower-extremity"),
    ("arm", "arms forearm forearms"),
    ("worse", "worsen worsens worsening worst worsened aggravated nightmare"),
    ("better", "improve improves improved improving relieved relief relieve relieves ease eases eased help helps "
     "helped "
               "restored restores alleviate alleviates"),
    ("night", "nights nighttime overnight"),
    ("travel", "traveled travelled trip trips traveling abroad"),
    ("cough", "coughing coughs coughed"),
    ("constipation", "constipated"),
    ("allergy", "allergic allergies hives"),
    ("begin", "began start started starts starting begun onset"),
    ("severe", "terrible horrible unbearable excruciating killing intense awful"),
    ("mild", "slight slightly bit"),
    ("jaw", "chew chewing chews"),
    ("tire", "tires gives weakens"),
    ("lift", "raise hold lifting raising holding"),
    ("thyroid", "hashimoto thyroiditis"),
    ("work", "job occupation employed works working"),
    ("teach", "teacher teaching teaches"),
    ("small", "little tiny"),
    ("foam", "foamy frothy bubbles bubbly"),
    ("face", "facial eyes"),
    ("stroke", "strokes cva"),
    ("home", "house household"),
    ("heat", "hot warm warmth"),
    ("lighter", "light lighter lightly"),
    ("discharge", "oozing pus drainage"),
    ("alcohol", "booze liquor"),
    ("yellow", "jaundice icterus yellowish"),
    ("throat", "pharynx"),
    ("fracture", "fractured fractures broke broken"),
    ("injury", "trauma injured injure injuries"),
    ("infection", "infections infected"),
)  # fmt: skip
"""(concept, words that mean it)."""

KINDS = {"wine": "alcohol", "beer": "alcohol", "whiskey": "alcohol", "whisky": "alcohol", "vodka": "alcohol",
         "gin": "alcohol", "rum": "alcohol", "sherry": "alcohol", "cocktail": "alcohol",
         "sulfa": "allergy"}  # fmt: skip
"""What is also said when a narrower word is said."""

CLAIMS = frozenset(
    "green "
    "appendix appendicitis gallbladder dialysis stroke infarction cancer diabetes hypertension asthma eczema "
    "psoriasis vitiligo lupus arthritis gout "
    "migraine epilepsy seizure depression anxiety tuberculosis hepatitis hiv pneumonia bronchitis sinusitis "
    "ulcer hernia "
    "anemia leukemia lymphoma thyroid cholesterol copd fever chill cough sputum dyspnea wheeze palpitation "
    "syncope dizzy "
    "nausea vomit diarrhea constipation jaundice headache tingling numb "
    "bruise bleed "
    "weightloss weightgain fatigue insomnia urine stool pregnant miscarriage "
    "fracture broke sprain accident injury surgery transplant transfusion peanut peanuts shellfish "
    "penicillin sulfa "
    "latex pollen aspirin ibuprofen naproxen acetaminophen paracetamol tylenol advil insulin metformin lisinopril "
    "amlodipine statin atorvastatin prednisone steroid steroids antibiotic antibiotics amoxicillin omeprazole antacid "
    "vitamin supplement warfarin contraceptive diuretic smoke alcohol wine beer whiskey vodka cocaine marijuana "
    "cannabis "
    "heroin vape ski skiing travel mexico africa asia india dog cat bird horse rabbit tick mosquito bite camping "
    "hiking "
    "kidneystone clot hoarse rhinorrhea congestion sneeze heartburn bloat gas appetite blurry "
    "confusion hallucination panic sweat sweats thirst thirsty snore".split()
)
"""Words that claim something of a patient, beside the words of data/knowledge: only these can make a statement one
that no fact supports."""

_WORD_START = re.compile("(?<![a-z])(?=([a-z].?.?))", re.DOTALL)
_LEAD = re.compile(r"(?:\\b|\(\?<[=!][^()]*\))*([a-z]*)([?*{]?)")


def _leads(pattern: str) -> Iterator[str]:
    """Yield the letters with which what a pattern matches begins, as many as are sure: none, one or more."""
    for one in alternatives_of(pattern):
        found = _LEAD.match(one)
        assert found is not None
        lead, rest = found[1].removesuffix(found[1][-1:] if found[2] else ""), one[found.end() :]
        if not lead and not found[2] and rest.startswith("(?:"):
            depths = itertools.accumulate((letter == "(") - (letter == ")") for letter in rest)
            end = next(n for n, depth in enumerate(depths) if not depth)
            yield from _leads(rest[3:end])
            if rest[end + 1 : end + 2] in ("?", "*"):
                yield from _leads(rest[end + 2 :])
        else:
            yield lead


_PHRASES = [({lead[:3] for lead in _leads(pattern)}, re.compile(pattern), stands) for pattern, stands in PHRASES]


@functools.cache
def _phrases(start: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    """Return the phrases that can begin with three letters: to look for these alone is a tenth of the time."""
    return tuple((rule, stands) for leads, rule, stands in _PHRASES if any(map(start.startswith, leads)))


_REMOVED = re.compile(r"(?:out|removed|taken out)$|^(?:had|have|has|having|got|took) (?:my|his|her|the|your) ")
_SIMILE = re.compile(r"(?<!feel )(?<!feels )(?<!felt )(?<!symptoms )\blike (?:an? |the )?\w+(?=[.,!;]|$)")
"""A comparison ("foamy, like beer") claims nothing of the thing compared with."""


def plain(text: str) -> str:
    """Return the text in lower case with lay phrases replaced by the word that stands for them."""
    spelt = spelt_out(text.lower().replace("’", "'"))
    pieces, reached = [], 0
    for start in _WORD_START.finditer(spelt):
        at = start.start()
        for rule, stands in _phrases(start[1]) if at >= reached else ():
            if found := rule.match(spelt, at):
                # "had his appendix out": what was taken out is told, too
                more = f" {_REMOVED.sub('', found[0])}" if stands == "surgery" else ""
                pieces += [spelt[reached:at], f" {stands}{more} "]
                reached = found.end()
                break
    replaced = "".join([*pieces, spelt[reached:]])
    return _SIMILE.sub(" ", replaced) if "like " in replaced else replaced


Claim = tuple[str, bool]
"""A concept, and whether it is denied."""

_IGNORED = frozenset(
    stem_of(w)
    for w in (
        f"{DENY} {DENIES} {DENIED} "
        "feel feels felt feeling notice noticed noticing have having present presents patient reports report "
        "year month "
        "week day hour old since about around kind sort type thing things something anything everything nothing like "
        "recent recently current currently past history also other still now ago then than more most well good many "
        "really actually maybe think thought guess know say says said tell told see saw come comes came go goes going "
        "went gone get got make made take takes taken taking took use used using put want need doctor hello hi thank "
        "thanks yes no not never none nor neither without any all both else while whenever time times first last next "
        "few couple several one two three lot mostly mainly usually often sometimes occasionally always ever "
        "every each "
        "experience experienced experiencing complain complains develop developed keep keeps because if even "
        "though long short able look looks looking seem seems trouble problem problems issue issues condition "
        "conditions "
        "symptom symptoms any specific new known certain total associated significant own same way part area "
        "please okay ok fine normal sure mind remember mention mentioned woman man male female boy girl person people "
        "early late half twice once "
        "over up but down out within through past become became becoming slowly similar into away only be "
        "happen happened happens no-one myself where what which who how why notable"
    ).split()
)
_ENDS = re.compile(r"(?<=[.!?])\s+|\n+")


@dataclass(frozen=True)
class Reading:
    """The concepts of a text, each with whether it is denied; read only if somebody looks."""

    text: str

    @functools.cached_property
    def claims(self) -> frozenset[Claim]:
        """The concepts, each with whether it is denied."""
        # not ``sentences``, which looks for capitals
        return frozenset().union(*map(_claims_of, _ENDS.split(plain(without_quantities(self.text.lower())))))

    @functools.cached_property
    def concepts(self) -> frozenset[str]:
        """The concepts, denied or not."""
        return frozenset(concept for concept, _ in self.claims)


@functools.lru_cache(maxsize=50_000)
def read(text: str) -> Reading:
    """Read a text, the same one once."""
    return Reading(text)


@functools.lru_cache(maxsize=50_000)
def _claims_of(sentence: str) -> frozenset[Claim]:
    words = words_in(sentence)
    if _TURNS.isdisjoint(words):  # nothing is denied, as in most sentences
        return frozenset((concept, False) for word in words for concept in _concepts_of(word))
    return frozenset(
        (concept, token.negated_by is not None and token.negated_by != token.position)
        for token in tokens_of(words)
        for concept in _concepts(token.stem)
    )


_TURNS = NEGATORS | {"non", "by"}
"""Words by which another word of their sentence may be denied, or may not be the patient's (``tokens_of``)."""


_BY_STEM = {stem_of(w): concept for concept, listed in GROUPS for w in (*listed.split(), concept)}
_KINDS = {stem_of(narrow): wide for narrow, wide in KINDS.items()}


@functools.lru_cache(maxsize=20_000)
def _concepts(stem: str) -> tuple[str, ...]:
    if not stem or stem in _IGNORED or stem.isdigit() or len(stem) < 2:
        return ()
    concept = _BY_STEM.get(stem, stem)
    return (concept, _KINDS[stem]) if stem in _KINDS else (concept,)


@functools.lru_cache(maxsize=20_000)
def _concepts_of(word: str) -> tuple[str, ...]:
    return _concepts(stem_of(word)) if is_content(word) else ()


@functools.cache
def clinical_concepts() -> frozenset[str]:
    """Return the concepts that claim something of a patient: of findings, of diseases, and the listed ones."""
    words = set(CLAIMS)
    for disease in knowledge().diseases:
        for name in disease.names:
            words.update(w for w in words_in(name) if _ILLNESS.match(w))
    return frozenset(c for w in words for c in _concepts(stem_of(w)))


_ILLNESS = re.compile(r"\w{3,}(?:itis|oma|osis|emia|pathy|uria|penia|plasia)$")
"""Endings by which a word of a disease's name is an illness of its own, and not "heart" or "simple"."""


SUPPORTED = 0.7
"""Share of a fact's concepts that the vignette must hold; endings and small words do not count."""
_FIGURE = re.compile(r"\d+(?:\.\d+)?")


def in_vignette(text: str, vignette: str) -> bool:
    """Say whether a fact's concepts and all its numbers occur in the vignette."""
    concepts, known = read(text).concepts, read(vignette).concepts
    held = len(concepts & known) >= SUPPORTED * len(concepts)
    return held and set(_FIGURE.findall(text)) <= set(_FIGURE.findall(vignette)) and bool(text.strip())
