"""The strict rule on responses that argue, hedge, list, refuse, or use an unusual form."""

from __future__ import annotations

import pytest

from core.agents.mcq import named_choices

HEAD = ("Migraine", "Cluster headache", "Tension headache", "Giant cell arteritis")
TEN = (
    "Gout", "Pseudogout", "Septic arthritis", "Rheumatoid arthritis", "Reactive arthritis", "Osteoarthritis",
    "Psoriatic arthritis", "Lyme disease", "Sarcoidosis", "Hemarthrosis",
)  # fmt: skip
A, B, C, D = HEAD

ONE: dict[str, list[tuple[str, str]]] = {
    "short": [
        ("A", A), ("(b)", B), ("c.", C), ("D)", D), ("**B**", B), ("*C*", C), ("B. Cluster headache", B), ("[D]", D),
        ("Option C", C), ("option b", B), ("Answer: D", D), ("Answer - B", B), ("Final answer: (C)", C),
        ("**Answer:** B", B), ("**Final Diagnosis:** Tension headache.", C), ("Diagnosis = Migraine", A),
        ("Giant cell arteritis (temporal arteritis)", D), ("It's migraine!", A), ("B because of the tearing.", B),
        ("A, given the photophobia.", A), ("migraine, probably", A), ("### Answer\nC", C), ("The answer is: **D**", D),
        ("\n\nCluster headache\n\n", B), ("> B", B), ("Final Diagnosis: b) Cluster headache", B),
    ],
    "stated": [
        ("Therefore the answer is A.", A), ("Option A is correct.", A), ("I think it is (C)", C),
        ("So the correct option is B", B), ("The best choice here is option D.", D), ("I would go with C.", C),
        ("I'd pick B here.", B), ("My answer would be D, for the jaw pain.", D), ("B is the best answer.", B),
        ("Choice (D) is right.", D), ("Tension headache is the most likely diagnosis.", C),
        ("The most likely diagnosis is a cluster headache, given the tearing.", B),
        ("In this patient, giant cell arteritis must be suspected and is the most likely diagnosis.", D),
        ("I am leaning towards migraine.", A), ("The picture is most consistent with migraine.", A),
        ("Therefore, A.", A), ("Hence: C", C), ("I choose option (b).", B),
        ("The diagnosis here would be migraine.", A),
        ("It can only be D.", D),
    ],
    "argued": [
        ("Migraine has an aura, and tension headache is bilateral. Tearing of one eye is something else. So: B.", B),
        ("Cluster headache would bring tearing and giant cell arteritis an older patient. This patient is young, "
         "with photophobia.\n\n**Migraine**", A),
        ("A is wrong because of the age. B does not fit the duration. C lacks nausea. So D is the best answer.", D),
        ("Options A and B can be ruled out. Between C and D, the age decides: D.", D),
        ("Tension headache. Migraine would be one-sided, and cluster headache comes with tearing.", C),
        ("The correct answer is cluster headache. Migraine lasts longer, tension headache is bilateral, and giant cell "
         "arteritis is found after fifty.", B),
        ("It is not migraine, because there is no nausea; rather, this is cluster headache.", B),
        ("Not A, not C; B.", B), ("Migraine is unlikely. Cluster headache is the most likely cause.", B),
        ("A. Migraine - too long\nB. Cluster headache - fits\nC. Tension headache - bilateral\nD. Giant cell "
         "arteritis - too young\n\nAnswer: B", B),
        ("A) Migraine: incorrect.\nB) Cluster headache: incorrect.\nC) Tension headache: correct.\nD) Giant cell "
         "arteritis: incorrect.", C),
        ("Other choices such as migraine and tension headache present otherwise. Cluster headache it is, with tearing.",
         B),
        ("At first I thought of A. The answer is A. Wait, the tearing speaks against it. The final answer is B.", B),
        ("Cluster headache fits best; migraine, tension headache and giant cell arteritis do not.", B),
        ("Giant cell arteritis rather than migraine is what I would expect at this age.", D),
    ],
    "hedged": [
        ("It could be A or B, but I would go with B.", B),
        ("Hard to say without more tests. Most likely migraine.", A),
        ("If I had to choose, the answer would be C.", C),
        ("Migraine is more likely than cluster headache here.", A),
        ("I cannot be certain, but the most likely diagnosis is giant cell arteritis. Other conditions such as "
         "migraine or tension headache cannot be excluded.", D),
        ("Probably B, although A is possible.", B),
        ("From the scan (which is not shown here), the most likely diagnosis is tension headache.", C),
        ("The most likely diagnosis is migraine. However, these symptoms can also be seen with tension headache.", A),
    ],
    "forms": [
        (r"\boxed{A}", A), (r"So we get $\boxed{\text{B}}$.", B), (r"\boxed{\text{Tension headache}}", C),
        ('{"answer": "B"}', B), ('```json\n{"reasoning": "A is too long, C is bilateral", "answer": "B"}\n```', B),
        ('{"final_diagnosis": "Migraine", "confidence": 0.8}', A), ("<answer>D</answer>", D),
        ('{"choice": "C", "explanation": "Neither migraine nor cluster headache lasts for days."}', C),
        ("答案：B。", B), ("答案是 C", C), ("Antwort: D", D), ("La réponse est B.", B), ("Respuesta correcta: (C)", C),
        ("（Ａ）", A), ("【B】", B), ("«Migraine»", A), ("Die richtige Antwort ist C.", C), ("正解はDです。", D),
        ("| Option | Verdict |\n|---|---|\n| A | wrong |\n| B | correct |", B),
    ],
}  # fmt: skip

SEVERAL = [
    "A or B",
    "Migraine or tension headache",
    "B and C",
    "Either migraine or cluster headache.",
    "A/B",
    "(A) or (C)",
    "Migraine\nCluster headache\nTension headache\nGiant cell arteritis",
    "The answer is B or C.",
    "Final Diagnosis: Migraine or cluster headache; more tests are needed.",
    '{"answer": ["A", "C"]}',
    "A. Migraine\nB. Cluster headache\nC. Tension headache\nD. Giant cell arteritis",
    "Migraine, tension headache and cluster headache are all possible.",
    "**Final Diagnosis:** Migraine\nCluster headache",
    "Final Diagnosis: Migraine or cluster headache (cannot be told apart so far)",
    "Final Diagnosis: Migraine (if there is nausea)\nOR\nFinal Diagnosis: Tension headache (if there is none)",
    "If there is nausea, the most likely diagnosis is migraine; otherwise tension headache.",
]
NONE = [
    "",
    "?",
    "I cannot say.",
    "I, as a doctor, would need more tests.",
    "A patient with such pain needs a scan.",
    "I would ask for more.",
    "A scan comes first.",
    "None of the given choices fits.",
    "Vitamin D was low.",
    "None of the options fits: not migraine, not cluster headache.",
    "Neither A nor B.",
    "It is not migraine.",
    "The patient has hepatitis B and C.",
    "I'm sorry, I cannot help with a diagnosis.",
    "E",
    "The answer is E.",
    "The answer is C. difficile colitis.",
    "A. fumigatus",
    "The answer is B cell lymphoma.",
    "Subdural haematoma",
    "The most likely diagnosis is a stroke. Migraine lasts for days, while cluster headache comes in bouts. Migraine",
    "The most likely diagnosis is a stroke, rather than migraine. Tension headache is bilateral and dull.",
    "The most likely diagnosis is subarachnoid haemorrhage, unlike migraine.",
    "Grade A evidence",
    "Migraines",
    "As an AI, I am not able to choose; conditions like migraine need a doctor.",
]


def test_the_choice_that_is_stated_is_read() -> None:
    wrong = [
        (response, got)
        for response, meant in [pair for pairs in ONE.values() for pair in pairs]
        if (got := named_choices(response, HEAD)) != [meant]
    ]
    assert wrong == []


EXPLAINED = [
    ("Answer: C\n\nExplanation: Migraine would be one-sided.", C),
    ("Answer: C\n\nExplanation:\nA. One-sided, with nausea.\nB. One-sided, with tearing.\nD. Only after fifty.", C),
    ("Answer: Tension headache\nRationale: Migraine is the most likely diagnosis in one-sided pain.", C),
    ("**Answer: C**\n\n**Why:** A is the correct choice only with an aura.", C),
    ("C\n\nWhy not the others?\nA: one-sided\nB: tearing\nD: too old", C),
    ("Respuesta: C\n\nExplicación: la migraña, A, es la más frecuente.", C),
    ("Antwort: C\n\nBegründung: A ist die häufigste Ursache.", C),
    ("Réponse : C\nJustification : A est la bonne réponse en cas d'aura.", C),
    ("Final Diagnosis: Tension headache\n\nDiscussion\nMigraine\nComes with nausea.", C),
    ("Answer: C. A is the best choice for patients with an aura.", C),
    ("The correct answer is C. Migraine is the most likely cause of pain with nausea.", C),
    ("**C. Tension headache**\n\nMigraine is the most likely cause of pain with nausea.", C),
    ("C) Tension headache\n\nExplanation of the options:\n(A) Migraine: nausea\n(B) Cluster headache: tearing", C),
    ("### Answer\nC\n\n### Rationale\nThe answer is not A. B is the answer for patients with tearing.", C),
    ('{"answer": "C", "explanation": "Migraine is the most likely diagnosis with nausea."}', C),
    ("<answer>C</answer><explanation>A is the correct answer if there is an aura.</explanation>", C),
    ("Answer: C. Reasoning: at first A is the most likely diagnosis.", C),
    ("Tension headache is the most likely diagnosis.\n\nOther points: migraine is the most likely with nausea.", C),
    ("Final answer: C\n\nKey learning point: the best treatment of A is a triptan, and B is the worst pain.", C),
    ("答案：C\n解析：A是最常见的。", C),
    # the answer is taken back, or comes later
    ("Answer: A\n\nExplanation: the pain is bilateral. Wait, then the final answer is C.", C),
    ("Answer: A. Wait, no: C.", C),
    ("Answer: A. Actually, no, C.", C),
    ("Answer: A. Correction: there is no nausea, so the answer is C.", C),
    ("Initial impression: A\nDiscussion: no nausea.\nFinal answer: C", C),
    ("Explanation: A comes with nausea, and B with tearing.\nAnswer: C", C),
    ("At first the answer is A. But there is no nausea, so C is the best answer.", C),
]  # fmt: skip
SHORT_FORMS = (
    "es la {}", "Es la {}.", "la respuesta correcta es {}", "La respuesta correcta es la {}.", "La correcta es la {}",
    "Sería la {}", "Elijo la {}.", "La opción {} es la correcta.", "la {} es la correcta", "La {}", "Opción {}",
    "Es ist {}.", "Richtig ist {}", "{} ist richtig.", "Antwort {}", "Die Antwort lautet {}",
    "Die richtige Antwort ist {}.",
    "C'est la {}.", "c'est {}", "La bonne réponse est la {}.", "Réponse {}", "Je dirais {}.",
    "La réponse correcte est la {}",
    "É a {}.", "A resposta correta é a {}", "A resposta certa é {}.", "Letra {}", "a alternativa correta é a letra {}",
    "Gabarito: {}", "Seria a {}.", "È la {}.", "La risposta corretta è la {}", "la respuesta es la ({})",
)  # fmt: skip


def test_an_explanation_does_not_change_a_stated_answer() -> None:
    wrong = [(response, got) for response, meant in EXPLAINED if (got := named_choices(response, HEAD)) != [meant]]
    assert wrong == []


def test_a_letter_is_read_in_the_short_forms_of_other_languages() -> None:
    said = [(form.format(letter), choice) for form in SHORT_FORMS for letter, choice in zip("ABCD", HEAD, strict=True)]
    wrong = [(response, got) for response, meant in said if (got := named_choices(response, HEAD)) != [meant]]
    assert wrong == []
    for words in ("El dolor es a la derecha", "La fièvre est à 39", "E a febre?", "Es a veces así", "c'est a peine"):
        assert named_choices(words, HEAD) == [], words


def test_a_response_that_leaves_it_open_names_several(subtests: pytest.Subtests) -> None:
    for response in SEVERAL:
        with subtests.test(response=response):
            assert len(named_choices(response, HEAD)) > 1


def test_a_response_without_a_choice_names_none() -> None:
    wrong = [(response, got) for response in NONE if (got := named_choices(response, HEAD)) != []]
    assert wrong == []


def test_of_ten_options_i_is_a_choice_only_if_it_is_not_the_pronoun() -> None:
    table: list[tuple[str, str]] = [
        ("I", "Sarcoidosis"),
        ("I.", "Sarcoidosis"),
        ("(I)", "Sarcoidosis"),
        ("The answer is I.", "Sarcoidosis"),
        ("Option I is correct.", "Sarcoidosis"),
        ("J", "Hemarthrosis"),
        ("I think it is H.", "Lyme disease"),
        ("I, as a doctor, would say G.", "Psoriatic arthritis"),
        ("I would go with (A).", "Gout"),
        ("Answer: I", "Sarcoidosis"),
    ]
    wrong = [(response, got) for response, meant in table if (got := named_choices(response, TEN)) != [meant]]
    assert wrong == []


def test_the_speaker_is_no_choice() -> None:
    for response in ("I, as a doctor, would need more tests", "I am not sure.", "Am I to choose? I do not know.", "I"):
        assert named_choices(response, TEN) == (["Sarcoidosis"] if response == "I" else [])


def test_names_letters_and_spelling() -> None:
    table: list[tuple[str, tuple[str, ...], list[str]]] = [
        # a name with the letter of another choice counts as two choices
        ("A. Cluster headache", HEAD, [A, B]),
        ("The answer is C (migraine).", HEAD, [C, A]),
        ("Cluster headache (A)", HEAD, [B, A]),
        ("Cluster headache (B)", HEAD, [B]),
        # names that the data set spoilt, or another spelling
        ("Optic neuritis", ('Optic neuritis\n"', "Glaucoma"), ['Optic neuritis\n"']),
        ("Metronidazole x 14 days", ("Metronidazole × 14 days", "Laparotomy"), ["Metronidazole × 14 days"]),
        ("guillain-barre syndrome.", ("Guillain–Barré syndrome", "Typhoid"), ["Guillain–Barré syndrome"]),
        (
            "It is chronic myelogenous leukemia.",
            ("Chronic myelogenous leukemia (CML)", "Lymphoma"),
            ["Chronic myelogenous leukemia (CML)"],
        ),
        ("ADHD", ("ADHD (inattentive type)", "ADHD (combined type)"), []),
        # parts of words and numbers are no names
        ("Non-Hodgkin lymphoma", ("Hodgkin lymphoma", "Sarcoidosis"), []),
        ("It is 7.5", ("5", "7.5"), ["7.5"]),
        ("After 4.5 hours", ("4", "9"), []),
        # choices that are letters
        ("B", ("AB", "B", "O", "A"), ["B"]),
        ("The answer is O.", ("AB", "B", "O", "A"), ["O"]),
        # more choices than letters: only names count
        ("B", tuple(f"Disease {n}" for n in range(40)), []),
        ("The answer is disease 7, and not disease 17.", tuple(f"Disease {n}" for n in range(40)), ["Disease 7"]),
    ]
    wrong = [
        (response, choices, got)
        for response, choices, meant in table
        if (got := named_choices(response, choices)) != meant
    ]
    assert wrong == []


def test_letters_count_only_if_the_choices_had_letters() -> None:
    assert named_choices("A. Cluster headache", HEAD, lettered=False) == [B]
    assert named_choices("The answer is B.", HEAD, lettered=False) == []
