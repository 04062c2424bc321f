"""Values and durations in prose, with findings assigned by hand."""

from __future__ import annotations

from core.text.quantities import read_measures


def test_values_are_findings() -> None:
    table: list[tuple[str, dict[str, bool]]] = [
        ("Temperature is 102.2°F.", {"fever": True}),
        ("Blood pressure is 84/50 mm Hg.", {"hypotension": True, "high_bp": False}),
        ("Hemoglobin is 98 g/L.", {"low_hemoglobin": True, "erythrocytosis": False}),
        ("He has had diarrhea for six weeks.", {"chronic_diarrhea": True}),
        ("He has had a week of diarrhea.", {"chronic_diarrhea": False}),
        ("He has had diarrhea for several weeks.", {"chronic_diarrhea": True}),  # two to nine
        ("He has had diarrhea for twenty-nine days.", {"chronic_diarrhea": True}),
        ("Leukocyte count is 14,000/mm3.", {"leukopenia": False, "leukocytosis": True}),
        ("Spinal fluid glucose is 20 mg/dL.", {}),
    ]
    wrong = [(sentence, got) for sentence, findings in table if (got := dict(read_measures(sentence))) != findings]
    assert wrong == []
