"""A patient's words in the third person, as a caregiver says them."""

from __future__ import annotations

from core.text.persons import third_person


def test_only_the_person_changes() -> None:
    table: list[tuple[str, str | None, str]] = [
        ("I've had a sharp chest pain for two days.", "male", "He has had a sharp chest pain for two days."),
        ("No, I haven't been short of breath.", "female", "No, she hasn't been short of breath."),
        ("I'm 40. I'm a man.", "male", "He is 40. He is a man."),
        ("I don't smoke and I drink little.", "female", "She doesn't smoke and she drinks little."),
        ("I have diabetes and take metformin.", "male", "He has diabetes and takes metformin."),
        ("I took amoxicillin and it changed nothing.", "male", "He took amoxicillin and it changed nothing."),
        ("I need my glasses; they help me.", "female", "She needs her glasses; they help her."),
        ("I carry boxes and I never wash my hands.", "male", "He carries boxes and he never washes his hands."),
        ("The doctor who saw me said I can go.", "female", "The doctor who saw her said she can go."),
        ("My hands look younger than I am.", "male", "His hands look younger than he is."),
        ("They say I have a murmur and take it seriously.", None, "They say they have a murmur and take it seriously."),
        ("I'm tired, and my back hurts.", None, "They are tired, and their back hurts."),
        ("I couldn't walk, I doesn't sleep.", "male", "He couldn't walk, he doesn't sleep."),
        ("The rash is red.", "male", "The rash is red."),
        ("It was mine, I did it myself.", "female", "It was hers, she did it herself."),
    ]
    wrong = [(own, sex, got) for own, sex, third in table if (got := third_person(own, sex)) != third]
    assert wrong == []
