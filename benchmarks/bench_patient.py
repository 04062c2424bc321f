"""What the reference patient says: how often it affirms what the case does not hold, knows nothing, or speaks jargon.

Asked are, of the library and of imported CRAFT-MD cases drawn by seed: what the reference doctor asks in a
consultation, every item of the Consultation benchmark's oracle, and a fixed list of questions as doctors put them,
jargon included (``QUESTIONS``), the latter two each after the opening words alone; and, where the release lies beside
the case file, what two models asked in their first conversation on the same case (``models``), after them too.

A yes counts as false unless one of two things holds, neither of which uses the patient's own matching. By words: every
concept of the question (its words, cut to their beginnings, with the synonyms of ``SAME``) stands in the reply, in a
clause without a denial, and the words of the reply stand in the case. Or by hand: ``patient_marks.json`` holds, by
hash, the verdict of one reader on question and reply; a yes that the words do not back and nobody has read is false,
and so is one that was read and found wrong, whatever its words.

"Does not know" are the replies that say so. A reply is in an examiner's words where it holds a term of the stated
lexicon that the question did not, a value with the unit of a device, or a word of ``EXAMINERS``. Give the authors' case
file, or set ANAMNESIS_CRAFTMD_RELEASE.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import random
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from common import sized, table

from core.agents.base import what_patient_holds
from core.agents.reference.doctor import ReferenceDoctor
from core.agents.reference.patient import ReferencePatient
from core.asking.scene import Dialogue, Said, Scene, Turn
from core.case import Case
from core.datasets.library import library
from core.datasets.readers import read_cases
from core.frameworks.consultation.roles import QUESTION
from core.text.case_items import itemized
from core.text.patient_terms import lexicon

MARKS = Path(__file__).with_name("patient_marks.json")
GREETING = Turn("doctor", "Hello, what symptoms bring you in today?")
QUESTIONS = (
    "What seems to be the problem?", "When did this start?", "How long has this been going on?",
    "Did it come on suddenly?", "Where exactly do you feel it?", "Can you describe what it feels like?",
    "How severe is it on a scale from one to ten?", "What makes it better or worse?", "Has it been getting worse?",
    "Do you have any other symptoms?", "Have you had any fever, chills or night sweats?",
    "Have you lost any weight without trying?", "Do you feel nauseous, or have you been vomiting?",
    "Any dyspnea or orthopnea?", "Have you had chest pain or palpitations?",
    "Do you have abdominal pain, diarrhea or constipation?", "Any hematuria, dysuria or urinary frequency?",
    "Have you noticed a rash or any skin lesions?", "Is there any pruritus?", "Do you get headaches or blurred vision?",
    "Any numbness, tingling or weakness in your arms or legs?", "Do you have joint pain or swelling?",
    "Have you been feeling fatigued lately?", "Any syncope or dizziness?",
    "Do you have a cough, and do you bring anything up?", "Do you have any medical conditions?",
    "Have you ever had surgery?", "What medications are you currently taking?", "Do you have any allergies?",
    "Does anything run in your family?", "Has anyone in your family had something similar?",
    "Do you smoke or use tobacco?", "How much alcohol do you drink?", "Do you use any recreational drugs?",
    "What do you do for a living?", "Are you sexually active?", "Have you traveled anywhere recently?",
    "Have you been around anyone who is sick?", "How old are you?", "Has this ever happened before?",
    "Is there edema of your lower extremities?", "What did your examination and blood tests show?",
)  # fmt: skip
UNSURE = re.compile(
    r"^(?:I'm not sure about that|I don't know, to be honest|I couldn't say|I don't know about that|I'm really not "
    r"sure)\.$"
)
YES = re.compile(r"^(?:yes|yeah)\b", re.IGNORECASE)
NO = re.compile(r"^(?:no|not that i know of)\b", re.IGNORECASE)
DENIAL = re.compile(r"\b(?:no|not|never|without|denie[sd]|none|nothing)\b|n't\b", re.IGNORECASE)
EXAMINERS = re.compile(
    r"\b(?:auscultation|palpation|percussion|on (?:physical )?exam(?:ination)?|examination (?:shows|reveals)|vital "
    r"signs|"
    r"mm ?hg|percentile|unremarkable|within normal limits|bilateral(?:ly)?|patient|presents|presented|denies|"
    r"afebrile)\b|"
    r"\d ?(?:/min|mg/dl|g/dl|mmol|meq|u/l|ng/|/mm|kg/m)",
    re.IGNORECASE,
)
SAME = tuple(
    frozenset(group.split())
    for group in (
        "tired fatigu exhaus weary",
        "belly abdom stomac tummy cramps",
        "pee urin urinat peeing pass",
        "vomit throw threw puke",
        "nausea nauseo queasy sick",
        "breath dyspne breathl wind air",
        "itch itchy prurit itching scratc",
        "rash spots spot lesion skin bumps patch patche eruption eczema blister hives sore",
        "faint passed syncop collap black uncons",
        "dizzy dizzin lighth vertigo spinni",
        "swell swolle edema puffy",
        "leg legs ankle ankles lower extrem feet foot",
        "pain hurt ache aches aching sore painfu discom",
        "fever feveri tempe febril hot",
        "headac head",
        "weight kilo kilos kg pound pounds lb lbs",
        "lost lose loss lighte",
        "smoke smoked smokes cigare tobacc pack packs",
        "racing palpit heart pound flutte",
        "joint joints knee knees finger elbow hip shoul wrist ankle",
        "numb numbne tingli pins",
        "weak weakne",
        "suddenly sudden abrupt once",
        "worse worsen progre grow grew growing increa",
        "sex sexual partne",
        "surger operat ectomy remove surgic",
        "travel trip abroad return visite tropics nigeri brazil village coast",
        "chill chills shiver",
        "sweat sweats sweati sweaty clammy",
        "cough coughi",
        "bring phlegm sputum mucus",
        "blurre vision see sight eyes",
        "exert effort climb climbi stairs walk walkin uphill exerci runnin traini hard",
        "swollen gland glands lump lumps",
        "yellow jaundi",
        "period periods menstr missed",
        "birth gave deliver",
        "thirsty thirst drink",
        "sick ill infect",
        "tremor shake shakes",
        "diarrh loose stool stools",
        "constip hard",
        "allerg",
        "chest breastb",
        "antibi amoxic penici",
    )
)
STOP = frozenset(
    "do you have had any the a an is are was were of in or and to it your did does been be this that there have has "
    "how ever "
    "feel felt get got at on with for when noticed notice without not from recently lately usual unusually than "
    "more much "
    "understood all right see i your other others trying become would like so what which who into out up down over "
    "yourself "
    "feeling lately unusually generally ever any after before by them they he she his her him my me as if one two both "
    "come "
    "comes came go goes very most mostly "
    "some something anything anyone about people around last past months month weeks week days day often time times "
    "use used "
    "take taken thank bad big".split()
)


class Reply(NamedTuple):
    """One question put to the patient of one case, with its reply."""

    source: str
    case: Case
    question: str
    text: str

    @property
    def mark(self) -> str:
        """The name under which a verdict on it is kept; it holds none of its words."""
        return hashlib.sha256(f"{self.case.case_key}|{self.question}|{self.text}".encode()).hexdigest()[:16]


def said(saying: AsyncIterator[Any]) -> str:
    """Return what an agent finally says."""

    async def listen() -> str:
        return [item.text async for item in saying if isinstance(item, Said)][-1]

    return asyncio.run(listen())


def replies_of(
    case: Case, patient: ReferencePatient, doctor: ReferenceDoctor, release: Path | None = None
) -> Iterator[Reply]:
    """Yield every question put to the patient of a case, with the reply."""
    scene = Scene("" if case.specialty == "Other" else case.specialty, seed=1, caregiver=case.speaker == "caregiver")
    held = what_patient_holds(case)
    opening: Dialogue = (GREETING, Turn("patient", said(patient.reply(held, scene, (GREETING,)))))
    yield Reply("opening", case, GREETING.text, opening[-1].text)
    dialogue = opening
    while "Final Diagnosis" not in (question := said(doctor.ask(scene, dialogue))):
        asked = (*dialogue, Turn("doctor", question))
        dialogue = (*asked, Turn("patient", said(patient.reply(held, scene, asked))))
        yield Reply("doctor", case, question, dialogue[-1].text)
    keys = (QUESTION.format(key=item.key) for item in itemized(case).items)
    models = asked_by_models(case, release) if release and case.profile is None else ()
    for source, questions in (("oracle", keys), ("list", QUESTIONS), ("models", models)):
        for question in questions:
            asked = (*opening, Turn("doctor", question))
            yield Reply(source, case, question, said(patient.reply(held, scene, asked)))


def asked_by_models(case: Case, release: Path) -> Iterator[str]:
    """Yield the questions of the release's doctors on a case, from the first trial of each model."""
    for model in ("gpt3_1106", "mistral-v2"):
        path = release / "results" / model / f"{case.case_key.rpartition('/')[2]}.json"
        if path.exists():
            for message in json.loads(path.read_text())["trial_0"]["multiturn_conversation"][2:]:
                if message["role"] == "assistant" and "?" in message["content"]:
                    yield " ".join(message["content"].split())[:400]


def words_of(text: str) -> set[str]:
    """Return the telling words of a text, cut to six letters, with a plural's s dropped from short ones."""
    words = re.findall(r"[a-z]+", text.lower().replace("n't", " not"))
    return {word[:6] for word in words if word not in STOP and len(word) > 2}


def concepts_in(word: str, held: set[str]) -> bool:
    """Say whether a word of a question, or one of its synonyms, is among the words held."""
    groups = [group for group in SAME if any(word.startswith(w) or w.startswith(word) for w in group if len(w) > 2)]
    wanted = {word, *(w for group in groups for w in group)}
    return any(h.startswith(w[:5]) or (len(h) > 3 and w.startswith(h)) for h in held for w in wanted)


def backed(reply: Reply) -> bool:
    """Say whether its words back a yes: the whole question, or one member of its list, in a clause that affirms."""
    profile = reply.case.profile
    source = " ".join([reply.case.vignette, *(f"{f.value} {f.lay}" for f in (profile.facts if profile else ()))])
    body = re.sub(r"^(?:yes|yeah)[,.]? ", "", reply.text, flags=re.IGNORECASE)
    known, told = words_of(source), words_of(body)
    if profile is not None and not all(concepts_in(word, known) for word in told):
        return False
    affirming = {
        w for clause in re.split(r"[;.,]| but | and ", body) if not DENIAL.search(clause) for w in words_of(clause)
    }
    question = re.split(r"(?<=[.!]) ", reply.question)[-1]
    members = re.split(r",| or ", question) if reply.source == "list" else [question]
    return any(words and all(concepts_in(w, affirming) for w in words) for words in map(words_of, members))


def in_examiners_words(reply: Reply) -> bool:
    """Say whether a reply holds what an examiner would say and the doctor had not said."""
    terms = lexicon()
    return bool(EXAMINERS.search(reply.text)) or bool(terms.named_in(reply.text) - terms.named_in(reply.question))


def main() -> None:
    """Print the counts; with --show or --sample the replies themselves, for reading."""
    parser = argparse.ArgumentParser(description=__doc__)
    release = os.environ.get("ANAMNESIS_CRAFTMD_RELEASE")
    default = Path(release) / "data" / "usmle_and_derm_dataset.csv" if release else None
    parser.add_argument("csv", type=Path, nargs="?", default=default, help="the authors' case file")
    parser.add_argument("--cases", type=int, default=sized(80, 3), help="imported cases drawn (80)")
    parser.add_argument("--seed", type=int, default=80, help="seed of the draw (80)")
    parser.add_argument("--show", choices=("unbacked", "examiner", "yes", "no"), help="print these replies")
    parser.add_argument("--sample", type=int, help="print so many replies of each set, drawn by seed")
    chosen = parser.parse_args()
    sets = {"library": list(library()[: sized(60, 3)])}
    if chosen.csv is not None:
        sets["imported"] = random.Random(chosen.seed).sample(
            list(read_cases(chosen.csv, "craftmd").cases), chosen.cases
        )
    folder = chosen.csv.parent.parent if chosen.csv is not None else None
    marks = json.loads(MARKS.read_text()) if MARKS.exists() else {}
    patient, doctor = ReferencePatient(), ReferenceDoctor()
    rows = []
    for name, cases in sets.items():
        replies = [reply for case in cases for reply in replies_of(case, patient, doctor, folder)]
        yes = [r for r in replies if YES.match(r.text)]
        unbacked = [r for r in yes if not backed(r)]
        false = [r for r in unbacked if marks.get(r.mark) != "right"] + [
            r for r in yes if r not in unbacked and marks.get(r.mark) == "wrong"
        ]
        asked = [r for r in replies if r.source != "opening"]
        unsure = Counter(r.source for r in asked if UNSURE.match(r.text))
        total = Counter(r.source for r in asked)
        examiner = [r for r in replies if in_examiners_words(r) and marks.get(r.mark) != "right"]
        rows.append(
            (
                name,
                str(len(cases)),
                str(len(asked)),
                str(len(yes)),
                str(len(unbacked)),
                str(len(false)),
                f"{len(false) / max(len(yes), 1):.1%}",
                str(sum(bool(NO.match(r.text)) for r in asked)),
                f"{unsure.total() / len(asked):.1%}",
                " ".join(f"{s} {unsure[s] / total[s]:.0%}" for s in total),
                str(len(examiner)),
            )
        )
        of = {"unbacked": unbacked, "examiner": examiner, "yes": yes, "no": [r for r in asked if NO.match(r.text)]}
        shown = of.get(chosen.show or "", [])
        if chosen.sample:
            shown = random.Random(f"{chosen.seed}:{name}").sample(asked, chosen.sample)
        for r in shown:
            print(f"{r.mark} {marks.get(r.mark, '?')} {r.case.case_key} {r.source}\n   {r.question}\n   {r.text}")
    table(
        "The reference patient",
        (
            "set",
            "cases",
            "replies",
            "yes",
            "not by words",
            "false",
            "of yes",
            "no",
            "does not know",
            "does not know, by source",
            "examiner's words",
        ),
        rows,
    )


if __name__ == "__main__":
    main()
