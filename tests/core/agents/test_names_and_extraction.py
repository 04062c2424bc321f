"""The reference grader: names of one disease, and the diagnosis that a response names."""

from __future__ import annotations

import pytest

from core.agents.reference.grader import ReferenceGrader
from core.knowledge.base import Knowledge, knowledge
from core.text.extraction import extract_by_rule, listed_diagnoses, same_diagnosis
from tests.core.agents.acting import case_with, judge

NOTHING = Knowledge([], [])


def test_two_names_of_one_disease() -> None:
    table: list[tuple[str, dict[str, tuple[str, ...]], str, bool]] = [
        # the eight few-shot pairs of the framework
        ("Eczema", {}, "eczema", True),
        ("Eczema", {}, "onychomycosis", False),
        ("Toe nail fungus", {"synonyms": ("onychomycosis",)}, "Onychomycosis", True),
        ("Wart", {"synonyms": ("verruca vulgaris",)}, "Verruca vulgaris", True),
        ("Lymphoma", {"subtypes": ("Hodgkin's lymphoma",)}, "Hodgkin’s lymphoma", False),
        ("Hodgkin's lymphoma", {"supertypes": ("lymphoma",)}, "Lymphoma", True),
        ("Melanoma", {}, "None", False),
        ("Melanoma", {}, "Multiple", False),
        # comma lists: any member
        ("Gout", {}, "Psoriasis, gout", True),
        ("Gout", {}, "Psoriasis and gout", True),
        ("Gout", {}, "Psoriasis, eczema", False),
        ("Hand, foot and mouth disease", {}, "Hand, foot, and mouth disease", True),
        # spelling
        ("Iron deficiency anemia", {}, "iron-deficiency anaemia", True),
        ("Sickle cell anaemia with septicaemia", {}, "Sickle cell anemia with septicemia", True),
        ("Haemophilia A", {}, "Hemophilia A", True),
        ("Generalized anxiety disorder", {}, "generalised anxiety disorder", True),
        ("Crohn's disease", {}, "Crohn disease", True),
        ("Graves disease", {}, "Graves' disease", True),
        ("Acute appendicitis", {}, "Appendicitis", True),
        ("Hypothyroidism", {}, "Hyperthyroidism", False),
        ("Type 1 diabetes", {}, "Type 2 diabetes", False),
        ("Gout", {}, "Pseudogout", False),
        ("Gout", {}, "", False),
        # a name listed as a subtype does not count, although the knowledge lists it as a synonym
        ("Psoriasis", {"subtypes": ("plaque psoriasis",)}, "Plaque psoriasis", False),
    ]
    wrong = [
        (answer, links, diagnosis, got)
        for answer, links, diagnosis, same in table
        if (got := same_diagnosis(case_with(answer, **links), diagnosis, NOTHING)) is not same
    ]
    assert wrong == []


def test_the_diagnosis_of_a_response() -> None:
    table: list[tuple[str, str]] = [
        ("**Final Diagnosis:** Psoriasis", "Psoriasis"),
        ("Final Diagnosis: Acute appendicitis.", "Acute appendicitis"),
        ("**Final Diagnosis**: **Lichen planus**", "Lichen planus"),
        ("**Final Diagnosis:**\nAtopic dermatitis", "Atopic dermatitis"),
        ("final diagnosis - Tinea corporis", "Tinea corporis"),
        ("My final diagnosis is psoriasis.", "psoriasis"),
        ("<b>Final Diagnosis:</b> Measles", "Measles"),
        ("The most likely diagnosis is migraine.", "migraine"),
        ("The diagnosis is: Rosacea", "Rosacea"),
        ("Diagnosis: Psoriasis\nExplanation: the plaques.", "Psoriasis"),
        ("Based on the symptoms, the patient likely has gout.", "gout"),
        ("I think you have psoriasis", "psoriasis"),
        ("This presentation is most consistent with acute pancreatitis.", "acute pancreatitis"),
        ("**Final Diagnosis:** The patient most likely has scabies.", "scabies"),
        ("**Final Diagnosis:** Likely bullous pemphigoid", "bullous pemphigoid"),
        ("**Final Diagnosis:** Probable Crohn's disease", "Crohn's disease"),
        ("Psoriasis, most likely.", "Psoriasis"),
        ("B. Psoriasis", "Psoriasis"),
        ("The answer is E. coli infection", "E. coli infection"),
        ("**Final Diagnosis:** 1. Gout", "Gout"),
        ("**Final Diagnosis:** Type 2 diabetes mellitus. Start metformin.", "Type 2 diabetes mellitus"),
        ("**Final Diagnosis:** Vitamin B12 deficiency", "Vitamin B12 deficiency"),
        ("**Final Diagnosis:** Multiple myeloma", "Multiple myeloma"),
        ("Multiple sclerosis", "Multiple sclerosis"),
        ("**Final Diagnosis:** Diabetes mellitus, hypertension", "Diabetes mellitus, hypertension"),
        ("He has scabies? No: gout. Final Diagnosis: Gout", "Gout"),
        # the question does not ask for a diagnosis
        ("**Final Answer:** Doxycycline", "Doxycycline"),
        ("**Final Answer**: **CT of the abdomen**", "CT of the abdomen"),
        ("Final answer: Treatment. **Final Answer:** Doxycycline.", "Doxycycline"),
        ("The final answer is Streptococcus pyogenes.", "Streptococcus pyogenes"),
        ("Answer: Doxycycline", "Doxycycline"),
        ("The best treatment is doxycycline.", "doxycycline"),
        ("The most likely organism is Escherichia coli.", "Escherichia coli"),
        ("The next step would be a chest radiograph.", "chest radiograph"),
        ("**Final Answer:** Doxycycline or amoxicillin", "Multiple"),
        ("**Final Answer:** None", "None"),
        ("It could be either gout or pseudogout.", "Multiple"),
        ("**Final Diagnosis:** Gout or pseudogout", "Multiple"),
        ("**Final Diagnosis:** Gout vs. septic arthritis", "Multiple"),
        ("**Final Diagnosis:** 1. Gout\n2. Pseudogout", "Multiple"),
        ("**Final Diagnosis:**\n* Gout\n* Pseudogout", "Multiple"),
        ("Differential: 1. gout 2. pseudogout 3. septic arthritis", "Multiple"),
        ("I cannot make a diagnosis without further testing.", "None"),
        ("Unfortunately, more information is needed to make a diagnosis.", "None"),
        ("I am an AI and cannot give medical advice. Please consult a doctor.", "None"),
        ("**Final Diagnosis:** None", "None"),
        ("**Final Diagnosis:** Unclear", "None"),
        ("**Final Diagnosis:** Not enough information", "None"),
        ("**Final Diagnosis:**", "None"),
        ("", "None"),
    ]
    wrong = [
        (response, got) for response, extracted in table if (got := extract_by_rule(response, knowledge())) != extracted
    ]
    assert wrong == []


def test_a_known_name_is_found_in_long_prose() -> None:
    prose = (
        "I have looked at all of it for a long time, and scabies explains the nightly itch of everybody at home best."
    )

    assert extract_by_rule(prose, knowledge()).lower() == "scabies"
    assert extract_by_rule(prose.replace("scabies", "scabies, not measles,"), knowledge()) == "Multiple"


def test_lists_are_read_in_their_order_without_reasons() -> None:
    table: list[tuple[str, list[str]]] = [
        (
            "**Final Diagnosis:**\n1. Gout\n2. Pseudogout\n3. Septic arthritis",
            ["Gout", "Pseudogout", "Septic arthritis"],
        ),
        (
            "The three likeliest:\n1. Gout - the toe\n2. Pseudogout: the knee\n3. Sepsis",
            ["Gout", "Pseudogout", "Sepsis"],
        ),
        ("**Final Answer:**\n1. Doxycycline\n2. Rest\n3. Surgery", ["Doxycycline", "Rest", "Surgery"]),
        ("1. Gout 2. Pseudogout 3. Sepsis", ["Gout", "Pseudogout", "Sepsis"]),
        ("Gout, pseudogout; sepsis", ["Gout", "pseudogout", "sepsis"]),
        ("**Final Diagnosis:**\n- Gout\n- **Pseudogout**", ["Gout", "Pseudogout"]),
        ("", []),
    ]
    wrong = [(response, got) for response, names in table if (got := listed_diagnoses(response)) != names]
    assert wrong == []


def test_free_responses_are_graded(subtests: pytest.Subtests) -> None:
    table: list[tuple[str, str, str]] = [
        ("**Final Diagnosis:** Gout", "correct", "Gout"),
        ("**Final Diagnosis:** Gout with a tophus of the ear", "correct", "Gout with a tophus of the ear"),
        ("**Final Diagnosis:** Scabies with gout", "incorrect", "Scabies with gout"),
        ("**Final Diagnosis:** Scabies", "incorrect", "Scabies"),
        ("**Final Diagnosis:** Gout or scabies", "multiple", "Multiple"),
        ("I cannot tell.", "no_diagnosis", "None"),
    ]
    for response, verdict, extracted in table:
        with subtests.test(response=response, verdict=verdict):
            result = judge(ReferenceGrader(), case_with("Gout"), response)

            assert (result.rule, result.verdict, result.extracted) == ("frq", verdict, extracted)


def test_one_of_three_is_enough_and_the_fourth_does_not_count() -> None:
    table: list[tuple[str, str]] = [
        ("**Final Diagnosis:**\n1. Scabies\n2. Measles\n3. Gout", "correct"),
        ("1. Scabies\n2. Measles\n3. Rosacea\n4. Gout", "incorrect"),
        ("None", "no_diagnosis"),
        ("", "no_diagnosis"),
    ]
    wrong = [
        (response, verdict, got)
        for response, verdict in table
        if (got := judge(ReferenceGrader(), case_with("Gout"), response, top3=True).verdict) != verdict
    ]
    assert wrong == []


def test_the_knowledge_adds_its_synonyms_and_broader_names() -> None:
    disease = next(d for d in knowledge().diseases if d.synonyms and d.supertypes)
    case = case_with(disease.name)

    assert same_diagnosis(case, disease.synonyms[0], knowledge())
    assert same_diagnosis(case, disease.supertypes[0], knowledge())
    assert not same_diagnosis(case, disease.synonyms[0], NOTHING)


def test_an_explanation_that_repeats_the_label_does_not_replace_the_diagnosis() -> None:
    table = [
        ("**Final Diagnosis:** Gout\n\nThe final diagnosis of lupus would need a rash.", "Gout"),
        ("Final answer: Gout. A final answer is never certain.", "Gout"),
        ("The final diagnosis is gout.", "gout"),
        ("Final diagnosis: lupus\nOn reflection, final diagnosis: gout", "gout"),
    ]
    wrong = [(words, got) for words, name in table if (got := extract_by_rule(words, knowledge())) != name]
    assert wrong == []
