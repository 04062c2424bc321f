"""Findings that a text affirms, and findings that it denies."""

from __future__ import annotations

import pytest

from core.knowledge.base import Finding, Knowledge, knowledge
from core.text.findings import Recogniser, recogniser


def finding(name: str, *phrases: str, kind: str = "symptom", unless: tuple[str, ...] = ()) -> Finding:
    return Finding(id=name, name=name, kind=kind, base=0.1, phrases=phrases, unless=unless)  # type: ignore[arg-type]


SMALL = Recogniser(
    Knowledge(
        [],
        [
            finding("fever", "fever", "febrile"),
            finding("cough", "cough"),
            finding("diarrhea", "diarrhea"),
            finding("bloody_diarrhea", "bloody diarrhea"),
            finding("weight_loss", "weight loss", "lost weight"),
            finding("chest_pain", "chest pain"),
            finding("on_edge", "on edge"),
            finding("run_down", '"run down"'),
            finding("scale", "scale", unless=("coma scale", "scale of 10")),
            finding("poor_sleep", "not sleeping"),
            finding("diabetes", "diabetes", kind="history"),
            finding("smoking", "smokes", kind="history"),
            finding("ibuprofen", "ibuprofen", kind="history"),
            finding("family_diabetes", "mother diabetes", "family history diabetes", "father diabetes", kind="family"),
            finding("tender_belly", "tender abdomen", "abdomen tender", kind="sign"),
            finding("crp", "c reactive protein raised", kind="lab"),
            finding("rheumatoid_factor", "rheumatoid factor", kind="lab"),
            finding("anti_dna", "anti dna", kind="lab"),
        ],
    )
)


def test_findings_of_a_text() -> None:
    table: list[tuple[str, dict[str, bool]]] = [
        # plain, in other words and forms
        ("She has a fever.", {"fever": True}),
        ("He lost a lot of weight and is coughing.", {"weight_loss": True, "cough": True}),
        ("There is pain in the chest.", {}),
        ("He has chest wall pain.", {"chest_pain": True}),
        ("He has chest and left shoulder pain.", {}),
        ("His chest hurts. Pain is severe.", {}),
        # negation, its scope and lists
        ("No fever.", {"fever": False}),
        ("She denies fever, cough, or weight loss.", {"fever": False, "cough": False, "weight_loss": False}),
        ("No fever but a cough.", {"fever": False, "cough": True}),
        ("No fever, however he has a cough.", {"fever": False, "cough": True}),
        ("He has no fever, and he has a cough.", {"fever": False, "cough": True}),
        ("He denies fever and takes ibuprofen.", {"fever": False, "ibuprofen": True}),
        ("She denies fever, smokes a pack a day.", {"fever": False, "smoking": True}),
        ("He has no illness other than diabetes.", {"diabetes": True}),
        ("There is neither fever nor cough.", {"fever": False, "cough": False}),
        ("He is without fever.", {"fever": False}),
        ("Fever is absent.", {"fever": False}),
        ("Fever: absent", {"fever": False}),
        ("Fever, cough and weight loss are absent.", {"fever": False, "cough": False, "weight_loss": False}),
        ("There is an absence of fever.", {"fever": False}),
        ("The pain did not improve with ibuprofen.", {"ibuprofen": True}),
        ("Not only fever, a cough too.", {"fever": True, "cough": True}),
        ("No, I have a fever.", {"fever": True}),
        ("The abdomen is non-tender.", {"tender_belly": False}),
        ("Non-tender abdomen with fever.", {"tender_belly": False, "fever": True}),
        ("No bloody diarrhea.", {"bloody_diarrhea": False}),
        ("Diarrhea, but no bloody diarrhea.", {"diarrhea": True, "bloody_diarrhea": False}),
        ("He had fever in May. Now he has no fever.", {"fever": True}),
        # contractions, curly ones too
        ("I don't have a fever.", {"fever": False}),
        ("I haven’t had a cough.", {"cough": False}),
        ("I can't say I cough.", {"cough": False}),
        ("I'm not sleeping.", {"poor_sleep": True}),
        # tests
        ("Rheumatoid factor and anti-DNA are negative.", {"rheumatoid_factor": False, "anti_dna": False}),
        ("Anti-DNA: Negative", {"anti_dna": False}),
        ("C-reactive protein is raised, with a normal blood count.", {"crp": True}),
        ("He has diabetes and a normal appetite.", {"diabetes": True}),
        # phrases word for word, and phrases that cancel
        ("She is always on edge.", {"on_edge": True}),
        ("The edge is sharp.", {}),
        ("I feel run down.", {"run_down": True}),
        ("She is running down the stairs.", {}),
        ("The plaque has fine scale.", {"scale": True}),
        ("The Glasgow coma scale is 15.", {}),
        ("The pain is 7 on a scale of 10.", {}),
        # relatives
        ("His mother has diabetes.", {"family_diabetes": True}),
        ("Her father had a stroke, a cough, and diabetes.", {}),
        ("Her father had a stroke, diabetes, and a cough.", {"family_diabetes": True}),
        ("He has a family history of diabetes.", {"family_diabetes": True}),
        ("There is no family history of diabetes.", {"family_diabetes": False}),
        ("Diabetes was found in his mother.", {}),
        ("His family history of diabetes is unremarkable.", {"family_diabetes": False}),
        ("His diabetes was normal for years.", {"diabetes": True}),
        ("She is brought by her mother because of fever.", {"fever": True}),
        ("A boy is brought by his mother for fever and cough.", {"fever": True, "cough": True}),
        ("His mother says he has a fever.", {"fever": True}),
        ("My brother has a fever, and I have a cough.", {"cough": True}),
        ("She has diabetes; her father had a stroke.", {"diabetes": True}),
        ("", {}),
    ]
    wrong = [(text, got) for text, expected in table if (got := SMALL.read(text)) != expected]
    assert wrong == []


def test_findings_come_in_the_order_of_the_text() -> None:
    order = [*SMALL.read("No cough. Fever and weight loss.").items()]

    assert order == [("cough", False), ("fever", True), ("weight_loss", True)]


def test_values_are_read_with_their_units() -> None:
    table: list[tuple[str, str, bool]] = [
        ("Temperature is 39.1 °C.", "fever", True),
        ("Her temperature is 98.6°F (37°C).", "fever", False),
        ("The oral temperature is 103.6 deg F.", "fever", True),
        ("Blood pressure is 84/50 mm Hg.", "hypotension", True),
        ("Blood pressure is 84/50 mm Hg.", "high_bp", False),
        ("BP 162/88.", "high_bp", True),
        ("Pulse is 120/min.", "tachycardia", True),
        ("Heart rate 44/min", "bradycardia", True),
        ("Respirations are 28/min.", "tachypnea", True),
        ("Oxygen saturation is 88% on room air.", "hypoxia", True),
        ("Hemoglobin is 7.9 g/dL.", "low_hemoglobin", True),
        ("Hemoglobin is 79 g/L.", "low_hemoglobin", True),
        ("Hemoglobin is 139 g/L.", "low_hemoglobin", False),
        ("Hemoglobin is 19.4 g/dL.", "erythrocytosis", True),
        ("Serum sodium is 121 mEq/L.", "hyponatremia", True),
        ("Potassium is 6.1 mmol/L.", "hyperkalemia", True),
        ("Leukocyte count is 14,300/mm3.", "leukocytosis", True),
        ("WBC 2.1 x 10^9/L.", "leukopenia", True),
        ("Platelets are 62,000/mm3.", "thrombocytopenia", True),
        ("Platelet count 250 x 10^9/L", "thrombocytopenia", False),
        ("Glucose is 45 mg/dL.", "low_glucose", True),
        ("Glucose is 22 mmol/L.", "high_glucose", True),
        ("Calcium is 12.4 mg/dL.", "hypercalcemia", True),
        ("Calcium is 1.8 mmol/L.", "hypocalcemia", True),
        ("Creatinine is 2.9 mg/dL.", "high_creatinine", True),
        ("Creatinine is 80 µmol/L.", "high_creatinine", False),
        ("Alanine aminotransferase: 450 U/L", "high_transaminases", True),
        ("TSH is 12 mU/L.", "high_tsh", True),
        ("Reticulocyte count 0.3%", "low_reticulocytes", True),
        ("Reticulocyte count is 8.5%.", "high_reticulocytes", True),
        ("Hemoglobin A1c is 9.4%.", "high_a1c", True),
        ("CD4 count of 145/mm3", "low_cd4", True),
        ("FEV1/FVC ratio of 55%", "obstructive_spirometry", True),
        ("Body mass index is 34 kg/m2.", "obesity", True),
        ("Ferritin is 6 ng/mL.", "low_ferritin", True),
        ("There are 12% eosinophils.", "eosinophilia", True),
        ("Her last menstrual period was 8 weeks ago.", "missed_period", True),
        ("Her last menstrual period was 2 weeks ago.", "missed_period", False),
        ("He has had diarrhea for 3 months.", "chronic_diarrhea", True),
        ("Diarrhea for two days.", "chronic_diarrhea", False),
        ("A 5-week history of fever.", "fever_over_two_weeks", True),
    ]
    wrong = [
        (text, finding_id, got)
        for text, finding_id, present in table
        if (got := recogniser().read(text)[finding_id]) is not present
    ]
    assert wrong == []


def test_words_that_resemble_a_finding_are_not_read_as_one(subtests: pytest.Subtests) -> None:
    table: list[tuple[str, str]] = [
        ("Hemoglobin electrophoresis shows 10% HbA2.", "low_hemoglobin"),
        ("She takes docusate sodium 100 mg.", "hypernatremia"),
        ("Urine sodium is 60 mEq/L.", "hyponatremia"),
        ("She takes calcium carbonate 500 mg.", "hypercalcemia"),
        ("Hemoglobin A1c is 9.4%.", "low_hemoglobin"),
        ("Cerebrospinal fluid shows 40 leukocytes.", "leukocytosis"),
        ("Cerebrospinal fluid glucose is 30 mg/dL.", "low_glucose"),
        ("He was born at 37 weeks and weighs 40 kg.", "fever"),
        ("Total protein is 6.9 g/dL.", "high_total_protein"),
        ("C-reactive protein is 80 mg/L.", "m_protein"),
        ("Hemoglobin is 13 g/dL.", "sickle_or_target"),
        ("He takes an antihistamine for hives.", "decongestant_use"),
        ("She has painful oral ulcers.", "open_skin_ulcer"),
        ("He has ulcerative colitis.", "open_skin_ulcer"),
        ("She has pulmonary hypertension.", "hypertension_history"),
        ("He has diabetes insipidus.", "diabetes"),
        ("There is jugular venous distension.", "bloating"),
        ("There is faint erythema.", "syncope"),
        ("He is fit and plays tennis.", "seizure"),
        ("She has mitral regurgitation.", "heartburn"),
        ("He had similar symptoms last summer.", "sick_contact"),
        ("She uses two sleep aids.", "immunosuppressed"),
        ("The knee is tender to palpation.", "abdominal_tenderness"),
        ("There is muscle rigidity of the arms.", "peritonism"),
        ("Her menses have become heavier.", "weight_gain"),
        ("He drank unfiltered water from a stream.", "thirst"),
        ("She has a diastolic murmur.", "systolic_murmur"),
        ("Premature ventricular contractions are seen.", "preterm"),
        ("The lesion is on the right side of her face and is painful.", "flank_pain"),
    ]
    for text, finding_id in table:
        with subtests.test(text=text, finding_id=finding_id):
            assert finding_id in knowledge().finding
            assert recogniser().read(text).get(finding_id) is not True
