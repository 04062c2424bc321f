"""The reference clinical staff: it reports the results that a query names, word for word, and nothing else."""

from __future__ import annotations

from core.asking.scene import Turn
from core.case import Case, Fact
from core.datasets.library import library
from core.frameworks.automedic.reference import ReferenceStaff, reported
from core.frameworks.automedic.roles import NOT_AVAILABLE, Facts
from tests.core.agents.acting import SCENE, hear

RESULTS: Facts = (
    Fact(key="temperature", value="38.1 °C", lay="", section="vital_signs"),
    Fact(key="pulse and blood pressure", value="pulse 112/min, 96/60 mm Hg", lay="", section="vital_signs"),
    Fact(key="heart sounds", value="scratchy sound along the left sternal border", lay="", section="examination"),
    Fact(key="lungs and calves", value="clear lungs, no calf tenderness", lay="", section="examination"),
    Fact(key="leukocytes", value="12,400/mm³", lay="", section="laboratory"),
    Fact(key="troponin", value="within the reference range", lay="", section="laboratory"),
    Fact(key="chest radiograph", value="unremarkable.", lay="", section="imaging"),
    Fact(key="electrocardiogram", value="diffuse ST elevation", lay="", section="other_tests"),
    Fact(key="skin prick", value="no reaction", lay=""),
)


def named_keys(query: str, results: Facts = RESULTS) -> list[str]:
    return [fact.key for fact in ReferenceStaff().named(query, results)]


def answer(query: str, results: Facts = RESULTS) -> str:
    return hear(ReferenceStaff().reply(results, SCENE, (Turn("doctor", query),)))


def test_a_query_for_a_section_gets_all_its_results() -> None:
    table: list[tuple[str, list[str]]] = [
        ("What are the vital signs?", ["temperature", "pulse and blood pressure"]),
        ("Are the vitals stable on arrival?", ["temperature", "pulse and blood pressure"]),
        ("What does the physical examination show?", ["heart sounds", "lungs and calves"]),
        ("Please perform a full physical exam, including the abdomen.", ["heart sounds", "lungs and calves"]),
        ("What does the imaging show of the kidneys?", ["chest radiograph"]),
        ("What do the laboratory tests show?", ["leukocytes", "troponin"]),
        ("Could you run routine blood tests?", ["leukocytes", "troponin"]),
        ("What does the imaging show?", ["chest radiograph"]),
        ("What do other tests show?", ["electrocardiogram", "skin prick"]),
        (
            "Please report vital signs and laboratory results.",
            ["temperature", "pulse and blood pressure", "leukocytes", "troponin"],
        ),
    ]
    wrong = [(query, got) for query, keys in table if (got := named_keys(query)) != keys]
    assert wrong == []


def test_a_particular_result_is_found_by_name_order_or_finding() -> None:
    table: list[tuple[str, list[str]]] = [
        ("What is the blood pressure?", ["pulse and blood pressure"]),
        ("What is the heart rate?", ["pulse and blood pressure"]),
        ("Does the patient have a fever now?", ["temperature"]),
        ("Is there a pericardial rub?", ["heart sounds"]),
        ("Any tenderness of the calves?", ["lungs and calves"]),
        ("Can you get an EKG and a troponin?", ["troponin", "electrocardiogram"]),
        ("Please order a CBC and a chest X-ray.", ["leukocytes", "chest radiograph"]),
        ("What do the laboratory tests show on leukocytosis?", ["leukocytes"]),
    ]
    wrong = [(query, got) for query, keys in table if (got := named_keys(query)) != keys]
    assert wrong == []


def test_a_result_that_is_missing_is_not_available() -> None:
    wrong = [
        (query, got)
        for query in [
            "What is the diagnosis?",
            "Is it serious?",
            "What about the joint fluid?",
            "Does the patient smoke?",
            "Hello!",
        ]
        if (got := answer(query)) != NOT_AVAILABLE
    ]
    assert wrong == []


def test_results_are_reported_word_for_word() -> None:
    assert answer("What are the vital signs?") == (
        "Temperature: 38.1 °C. Pulse and blood pressure: pulse 112/min, 96/60 mm Hg."
    )
    assert answer("What does the imaging show?") == "Chest radiograph: unremarkable."


def test_without_results_nothing_is_available() -> None:
    assert answer("What are the vital signs?", ()) == NOT_AVAILABLE


QUERIES = (
    "What are the vital signs?", "What does the physical examination show?", "What do the laboratory tests show?",
    "What does the imaging show?", "What do other tests show?", "Is there a murmur?", "What is the sodium?",
    "Please order CBC, CMP, an ECG and an ultrasound.", "Any skin lesions?", "What do you think is wrong?",
)  # fmt: skip


def test_over_the_library_every_reply_is_made_of_results() -> None:
    for case in library():
        _assert_made_of_results(case)


def _assert_made_of_results(case: Case) -> None:
    assert case.profile is not None
    results = case.profile.optional
    reported_facts: set[str] = set()
    for query in QUERIES:
        reply = answer(query, results)
        parts = [reported(fact) for fact in results if reported(fact) in reply]
        assert reply in (" ".join(parts), NOT_AVAILABLE)
        reported_facts.update(parts)
    assert reported_facts == {
        reported(fact) for fact in results
    }  # the first five queries together ask for every result
