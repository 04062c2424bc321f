"""The section of each sentence of a vignette, compared with marks by hand."""

from __future__ import annotations

from core.text.sections import sections_of

PROSE = (
    ("complaint", "A 52-year-old baker comes to the clinic because of a cough that has troubled her for three weeks."),
    ("complaint", "She brings up yellow sputum and feels worse at night."),
    ("past_history", "She was diagnosed with asthma in childhood."),
    ("medication", "She takes a salbutamol inhaler when needed."),
    ("family_history", "Her father died of lung cancer."),
    ("social_history", "She smokes ten cigarettes a day and lives with her husband."),
    ("vital_signs", "Temperature is 38.2 °C, pulse 92/min and blood pressure 130/80 mm Hg."),
    ("examination", "A scratchy sound comes and goes at the left edge."),
    ("examination", "Crackles are heard over the right lower lung."),
    ("examination", "She looks unwell."),
    ("laboratory", "Leukocyte count is 14,000/mm3."),
    ("imaging", "Chest x-ray shows a consolidation on the right."),
    ("other_tests", "Electrocardiography is normal."),
)
HEADED = """Patient:
A 30-year-old woman.
History of present illness: Pain in the belly since yesterday. It moved to the right.
PMH: none
**Medications:** the pill
Family history: brother with Crohn disease
Vitals: 37.9 °C
Physical exam:
Right lower belly guarded.
No mass.
Labs: CRP raised
Imaging: swollen appendix"""


def test_prose_is_split_sentence_by_sentence() -> None:
    assert sections_of(" ".join(sentence for _, sentence in PROSE)) == PROSE


def test_headings_decide_and_are_not_part_of_the_sentences() -> None:
    assert sections_of(HEADED) == (
        ("demographics", "A 30-year-old woman."),
        ("complaint", "Pain in the belly since yesterday."),
        ("complaint", "It moved to the right."),
        ("past_history", "none"),
        ("medication", "the pill"),
        ("family_history", "brother with Crohn disease"),
        ("vital_signs", "37.9 °C"),
        ("examination", "Right lower belly guarded."),
        ("examination", "No mass."),
        ("laboratory", "CRP raised"),
        ("imaging", "swollen appendix"),
    )


def test_a_first_sentence_without_a_complaint_is_demographics() -> None:
    text = "The patient is a 30-year-old woman. Her knee hurts."

    assert [section for section, _ in sections_of(text)] == ["demographics", "complaint"]


def test_no_text_has_no_sections() -> None:
    assert sections_of(" \n ") == ()
