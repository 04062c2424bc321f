"""The paper's loose rule for multiple choice, and the strict rule."""

from __future__ import annotations

import time

import pytest

from core.agents.mcq import judge_loose, judge_strict, named_choices

CHOICES = ("Migraine", "Migraine with aura", "Cluster headache", "Crohn's disease")


def test_loose_and_strict(subtests: pytest.Subtests) -> None:
    table: list[tuple[str, str, str, str]] = [
        ("**Final Diagnosis:** Cluster headache", "Cluster headache", "correct", "correct"),
        ("cluster HEADACHE.", "Cluster headache", "correct", "correct"),
        ("**Final Diagnosis:** Migraine", "Cluster headache", "incorrect", "incorrect"),
        # the loose rule counts a response that lists every choice; the strict one does not
        ("Migraine, Migraine with aura, Cluster headache, Crohn's disease", "Cluster headache", "correct", "multiple"),
        ("It is not cluster headache but migraine.", "Cluster headache", "correct", "incorrect"),
        ("Migraine or cluster headache.", "Cluster headache", "correct", "multiple"),
        # a name within a longer one
        ("Migraine with aura", "Migraine", "correct", "incorrect"),
        ("Migraine with aura", "Migraine with aura", "correct", "correct"),
        ("Migraine, not migraine with aura", "Migraine", "correct", "correct"),
        ("Migraines", "Migraine", "correct", "no_diagnosis"),
        # letters
        ("C", "Cluster headache", "incorrect", "correct"),
        ("(c)", "Cluster headache", "incorrect", "correct"),
        ("**Final Diagnosis:** C.", "Cluster headache", "incorrect", "correct"),
        ("The correct answer is B", "Migraine with aura", "incorrect", "correct"),
        ("Option A: it fits", "Migraine", "incorrect", "correct"),
        ("E", "Migraine", "incorrect", "no_diagnosis"),
        ("A headache of the tension type", "Migraine", "incorrect", "no_diagnosis"),
        ("C. Cluster headache", "Cluster headache", "correct", "correct"),
        ("A. Cluster headache", "Cluster headache", "correct", "multiple"),
        # spelling that only the strict rule accepts; the loose rule is the paper's
        ("Crohn’s disease", "Crohn's disease", "incorrect", "correct"),
        ("I cannot say.", "Migraine", "incorrect", "no_diagnosis"),
        ("", "Migraine", "incorrect", "no_diagnosis"),
    ]
    for response, answer, loose, strict in table:
        with subtests.test(response=response, answer=answer):
            by_loose, by_strict = judge_loose(response, answer), judge_strict(response, answer, CHOICES)

            assert (by_loose.rule, by_loose.verdict) == ("mcq_loose", loose)
            assert (by_strict.rule, by_strict.verdict) == ("mcq_strict", strict)


def test_the_strict_rule_returns_the_choices_that_it_read() -> None:
    assert judge_strict("Migraine or cluster headache", "Migraine", CHOICES).extracted == "Migraine, Cluster headache"
    assert judge_strict("B", "Migraine", CHOICES).extracted == "Migraine with aura"
    assert judge_strict("?", "Migraine", CHOICES).extracted is None


def test_a_choice_with_punctuation_is_recognised() -> None:
    choices = ("ADHD (inattentive type)", "C. difficile colitis", "Stage 3+ disease")

    assert [named_choices(choice, choices) for choice in choices] == [[choice] for choice in choices]


_HOSTILE = [
    "\n", "*", " ", "Gout ", "(a", "A, ", "Gout (", "not ", "the answer is ", "if i ",
    "not A ", "\n\n Gout\n", "A\n", "B. Gout\n",
    "**", "Gout if ", "other options such as ", "<answer>", "\\boxed{", "Gout, A or ", "most likely ",
    "é ", "i'd say so: ",
]  # fmt: skip
"""Each is repeated 5,000 times."""


@pytest.mark.slow
def test_a_response_that_never_ends_is_judged_at_once(subtests: pytest.Subtests) -> None:
    for words in _HOSTILE:
        with subtests.test(words=words):
            response = words * 5_000
            began = time.process_time()
            judge_strict(response, "Gout", ("Gout", "A", "Gout attack"))
            judge_strict(response + "Gout", "Gout", ("Gout", "Lupus", "Gout attack"))
            assert time.process_time() - began < 1
