"""The name of a choice counts as whole words, exactly as a regular expression would match it."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from core.agents.mcq import _whole_words, named_choices

TEXT = st.text(alphabet="ab _-1é²'.", max_size=20)


@given(TEXT, TEXT.filter(bool))
def test_whole_words_are_those_of_a_pattern(text: str, name: str) -> None:
    expected = [match.span() for match in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", text)]
    assert list(_whole_words(name, text)) == expected


def test_a_name_within_a_word_or_a_longer_name_does_not_count() -> None:
    assert named_choices("Migraines", ["Migraine"]) == []
    assert named_choices("Migraine with aura", ["Migraine", "Migraine with aura"]) == ["Migraine with aura"]
    choices = named_choices("Migraine with aura or plain migraine", ["Migraine", "Migraine with aura"])
    assert sorted(choices) == ["Migraine", "Migraine with aura"]


def test_british_and_american_spellings_are_one_name() -> None:
    pairs = [
        ("Sickle cell anaemia", "Sickle cell anemia"), ("Oesophageal web", "Esophageal web"),
        ("Brain tumour", "Brain tumor"), ("Haemophilia", "Hemophilia"), ("Paediatric asthma", "Pediatric asthma"),
        ("Generalised anxiety", "Generalized anxiety"), ("Coeliac disease", "Celiac disease"),
        ("Diarrhoea", "Diarrhea"), ("Oestrogen deficiency", "Estrogen deficiency"),
    ]  # fmt: skip
    wrong = []
    for british, american in pairs:
        for choice, said in ((british, american), (american, british)):
            if (got := named_choices(f"**Final Diagnosis:** {said}", (choice, "Gout"))) != [choice]:
                wrong.append((choice, said, got))
    assert wrong == []
    assert named_choices("Hypercalcaemia", ("Hypocalcemia", "Hyperkalemia")) == []
