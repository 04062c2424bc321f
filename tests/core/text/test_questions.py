"""The kind of a question, recognised by its words; the questions are written for this project."""

from __future__ import annotations

import pytest

from core.text.questions import asked_for


def test_the_kind_of_a_question_is_recognised(subtests: pytest.Subtests) -> None:
    table: list[tuple[str, str]] = [
        ("What is the most likely diagnosis?", "diagnosis"),
        ("Which of the following is most likely the diagnosis in this man?", "diagnosis"),
        ("Which of the following is the most likely cause of this patient's symptoms?", "diagnosis"),
        ("Which of the following conditions best explains these findings?", "diagnosis"),
        ("Which disorder is this child most likely suffering from?", "diagnosis"),
        ("What does the patient have?", "diagnosis"),
        ("What is it?", "diagnosis"),
        ("Which of the following is the best next step in diagnosis?", "test"),
        ("Which of the following would confirm the diagnosis?", "test"),
        ("What test should be done to confirm the diagnosis of this patient's disease?", "test"),
        ("The next step in diagnosis is the measurement of which of the following?", "test"),
        ("Which of the following is the next step in management to confirm the diagnosis?", "test"),
        ("How would you establish the diagnosis?", "test"),
        ("Which of the following is the most appropriate next step in management?", "treatment"),
        ("Which of the following is the best treatment for this patient’s most likely diagnosis?", "treatment"),
        ("Given the likely diagnosis, which of the following drugs should be given first?", "treatment"),
        ("After the diagnosis was confirmed by biopsy, what is the best long-term therapy?", "treatment"),
        ("Which of the following organisms is the most likely cause of her symptoms?", "organism"),
        ("What is the most likely causal pathogen?", "organism"),
        ("Which of the following is the most likely mechanism of this patient’s diagnosis?", "mechanism"),
        ("What is the underlying pathophysiology?", "mechanism"),
        ("Which enzyme's deficiency best explains this, and what is its cause?", "mechanism"),
        ("Which of the following findings would confirm the diagnosis?", "finding"),
        ("Which of the following is associated with the most likely diagnosis?", "finding"),
        ("Which of the following is the greatest risk factor for this diagnosis?", "finding"),
        ("This patient is at risk of developing which of the following?", "finding"),
        ("Which of the following complications should be feared?", "finding"),
        ("What is the specificity of this test?", "other"),
        ("Which of the following diseases has the same inheritance as the diagnosis?", "other"),
        ("Why?", "other"),
    ]
    for question, kind in table:
        with subtests.test(question=question, kind=kind):
            assert asked_for(question) == kind
            assert asked_for(f"  {question.replace(' ', '  ')} ") == kind
