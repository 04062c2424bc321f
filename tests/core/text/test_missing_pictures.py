"""Cases that mention a picture: recognising those that cannot be solved without it."""

from __future__ import annotations

from core.case import FINAL_QUESTION, Case
from core.datasets.library import library
from core.text.missing_pictures import picture_missing, speaks_of_picture


def question(vignette: str) -> Case:
    return Case(
        case_key="t/1", dataset="t", specialty="Other", vignette=vignette, question=FINAL_QUESTION, answer="Gout"
    )


def test_a_picture_is_missing_only_if_it_is_not_described() -> None:
    table: list[tuple[str, bool]] = [
        ("A 30-year-old man comes because of palpitations for two days. An ECG is shown.", True),
        (
            "A 9-year-old boy has a rash since yesterday. His temperature is 38 °C. The rash is as shown in Figure A.",
            True,
        ),
        (
            "A 25-year-old woman comes with a rash. A photograph is shown. The rash is made of silvery scaly plaques "
            "on the elbows, and the nails are pitted.",
            False,
        ),
        ("A 71-year-old man is found unconscious. His skin is cold and his pulse is 40/min.", False),
    ]
    wrong = [
        (vignette, got) for vignette, missing in table if (got := picture_missing(question(vignette))) is not missing
    ]
    assert wrong == []


def test_no_case_of_the_library_lacks_a_picture() -> None:
    assert [case.case_key for case in library() if picture_missing(case)] == []


def test_a_table_of_values_is_no_picture() -> None:
    table: list[tuple[str, bool]] = [
        ("A photograph of the rash is shown.", True),
        ("An x-ray is shown in Figure 1.", True),
        ("Her lab results are shown below:", False),
        ("His hands exhibit a brown color.", False),
        ("Laboratory studies show a hemoglobin of 9 g/dL.", False),
        ("EKG is shown below (Figure A).", True),
    ]
    wrong = [(sentence, got) for sentence, expected in table if (got := speaks_of_picture(sentence)) is not expected]
    assert wrong == []
