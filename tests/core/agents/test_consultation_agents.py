"""The rule-based agents of the Consultation benchmark: the item that a question names, and its lay wording."""

from __future__ import annotations

import asyncio

import pytest

from core.asking.scene import Dialogue, FinalMessage, Material, Question, Scene, Turn
from core.case import AsksFor, Case
from core.datasets.library import library
from core.events import Token
from core.frameworks.consultation.roles import (
    CLOSING,
    Briefing,
    ItemsPatient,
    LLMSolver,
    OracleDoctor,
    OracleInquiry,
    ReferenceSolver,
    briefing_of,
    named_item,
)
from core.prompts import load_pack
from core.text.case_items import HistoryItem, ItemSet, Order, itemized
from tests.core.agents.acting import SCENE, Script, case_with, hear

OPENING = Turn("patient", "Hello doctor. My skin flakes. Can you help me?")


def briefing(case: Case | None = None, stored: ItemSet | None = None) -> Briefing:
    return briefing_of(itemized(case or case_with(), stored))


def reply(question: str, patient_briefing: Briefing | None = None) -> str:
    dialogue: Dialogue = (OPENING, Turn("doctor", question))

    async def hear() -> str:
        items = [item async for item in ItemsPatient().reply(patient_briefing or briefing(), SCENE, dialogue)]
        assert isinstance(items[-1], FinalMessage)
        assert [item.text for item in items if isinstance(item, Token)] == [items[-1].text]
        return items[-1].text

    return asyncio.run(hear())


def test_a_question_for_an_item_gets_its_lay_words() -> None:
    table: list[tuple[str, str]] = [
        ("What about age and sex?", "I'm 40. I'm a man."),
        ("What about medication?", "I take lithium for my mood."),
        ("Can you tell me about the duration?", "It began three months ago."),
        ("What about the main complaint?", "I have scaly patches on my elbows."),
    ]
    wrong = [(question, got) for question, lay in table if (got := reply(question)) != lay]
    assert wrong == []


def test_a_question_that_names_more_than_a_key_is_answered_with_one_fact() -> None:
    """The question says more than the key "joint pain": the reference patient answers by the words of the question."""
    items = briefing().items
    assert named_item("Do your finger joints hurt in the morning?", items) is None
    assert reply("Do your finger joints hurt in the morning?") == "My finger joints hurt."


def test_a_question_that_the_case_does_not_answer_gets_no_item() -> None:
    text = reply("Have you travelled abroad?")
    assert not [item for item in briefing().items if item.lay in text]


def test_items_of_a_model_are_told_in_the_first_person() -> None:
    stored = ItemSet((HistoryItem(key="drugs", value="He takes lithium", topic="medication"),), "openai/profiler")
    assert reply("What about drugs?", briefing(stored=stored)) == "I take lithium."


def test_a_briefing_has_no_question_choices_or_answer() -> None:
    case = case_with()
    text = repr(briefing(case))
    assert case.vignette in text
    assert not [word for word in (case.answer, *case.choices, case.question) if word in text]


def test_a_patient_has_one_name_that_fits_its_sex() -> None:
    men, women = (
        {briefing(case_with(case_key=f"t/{n}", sex=sex)).name for n in range(40)} for sex in ("male", "female")
    )
    assert len(men) > 2
    assert not men & women
    assert briefing().name == briefing().name


def test_every_item_of_the_library_can_be_asked_for_and_has_lay_words() -> None:
    wrong = []
    for case in library():
        items = briefing(case).items
        assert len({item.key for item in items}) == len(items) >= 5, case.case_key
        for item in items:
            if not item.lay or named_item(f"Can you tell me about {item.key}?", items) != item:
                wrong.append((case.case_key, item))
    assert wrong == []


def test_the_oracle_asks_in_its_order_and_then_closes() -> None:
    wrong = [
        (order, got)
        for order, keys in [("direct", ["one", "two", "three"]), ("reversed", ["three", "two", "one"])]
        if (got := _questions(order, 0)) != [*(f"Can you tell me about {key}?" for key in keys), CLOSING]
    ]
    assert wrong == []


def test_the_order_of_the_random_oracle_depends_on_the_seed() -> None:
    orders = {tuple(_questions("random", seed)) for seed in range(60)}
    assert len(orders) == 6  # all permutations of three keys
    assert _questions("random", 7) == _questions("random", 7)


def _questions(order: Order, seed: int) -> list[str]:
    doctor = OracleInquiry(OracleDoctor(order), ("one", "two", "three"))
    dialogue: Dialogue = (OPENING,)

    async def ask() -> str:
        items = [item async for item in doctor.ask(Scene("", seed), dialogue)]
        assert isinstance(items[-1], FinalMessage)
        return items[-1].text

    for _ in range(4):
        dialogue = (*dialogue, Turn("doctor", asyncio.run(ask())), Turn("patient", "Yes."))
    return [turn.text for turn in dialogue if turn.role == "doctor"]


def test_the_solvers_prompt_demands_an_answer_of_the_questions_kind(subtests: pytest.Subtests) -> None:
    table: list[tuple[AsksFor, str]] = [
        ("diagnosis", "Write the name of one single diagnosis, without any explanation."),
        ("test", "Write the one single test or step that fits best, without any explanation."),
        ("treatment", "Write the one single treatment or step that fits best, without any explanation."),
        ("organism", "Write the name of one single organism, without any explanation."),
        ("mechanism", "Write one single mechanism or cause in a few words, without any explanation."),
        ("finding", "Write one single answer in a few words, without any explanation."),
        ("other", "Write one single answer in a few words, without any explanation."),
    ]
    for kind, demand in table:
        with subtests.test(kind=kind, demand=demand):
            script = Script(("This.",))
            question = Question("frq", "What next?", asks_for=kind)
            material = Material("multi_turn", dialogue=(OPENING,))

            hear(LLMSolver(script.voice(), load_pack("consultation")).solve(Scene("", 1), material, question))

            (prompt,) = script.prompts
            assert prompt.endswith(demand)
            assert "What next?" in prompt


def test_the_reference_solver_reads_the_opening_message() -> None:
    """The patient's first message counts as evidence, although no question precedes it."""
    question = Question("mcq", "What is it?", ("Gout", "Migraine"))
    answers = {}
    for opening in ("My big toe is red, hot and swollen.", "I have a throbbing headache on one side, and light hurts."):
        material = Material("multi_turn", dialogue=(Turn("patient", opening),))
        answers[opening] = asyncio.run(_solved(material, question))
    assert ["Gout" in answer for answer in answers.values()] == [True, False]
    assert ["Migraine" in answer for answer in answers.values()] == [False, True]


async def _solved(material: Material, question: Question) -> str:
    items = [item async for item in ReferenceSolver().solve(Scene("", 3), material, question)]
    assert {item.role for item in items if isinstance(item, Token)} == {"solver"}
    return next(item.text for item in items if isinstance(item, FinalMessage))
