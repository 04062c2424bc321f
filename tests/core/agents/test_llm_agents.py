"""The requests to language models in each role, and how the two-step grader reads their replies."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from core.agents.base import patient_knowledge
from core.agents.grader import ACCEPTED_PROMPT, LLMGrader, read_extracted, read_name, read_yes_no
from core.agents.player import LLMDoctor, LLMPatient, LLMSummariser
from core.asking.ask import MAX_ASKS
from core.asking.parts import wire
from core.asking.scene import CallFailed, Material, Question, Scene, Turn
from core.case import AsksFor
from core.errors import ProviderError
from core.frameworks.base import default_pack
from core.models.base import Message
from core.prompts import load_pack
from tests.core.agents.acting import GREETING, SCENE, Script, case_with, hear, judge

PACK = default_pack()
DIALOGUE = (GREETING, Turn("patient", "I itch."), Turn("doctor", "Where?"), Turn("patient", "On my arm."))


def grader(script: Script) -> LLMGrader:
    return LLMGrader(script.voice(), PACK)


# doctor


def test_the_doctor_sees_the_greeting_as_its_own_first_message() -> None:
    script = Script(("Since when?",))

    assert hear(LLMDoctor(script.voice(), PACK).ask(SCENE, DIALOGUE)) == "Since when?"
    assert [m["role"] for m in script.sent[0]] == ["system", "assistant", "user", "assistant", "user"]
    assert script.sent[0][1]["content"] == GREETING.text
    assert "Dermatology" in script.sent[0][0]["content"]
    assert script.samplings[0].seed == SCENE.seed


def test_the_vignette_and_the_question_are_one_message() -> None:
    script = Script(("Eczema",))
    question = Question("mcq", "What ails him?", ("Eczema", "Gout"))

    hear(LLMDoctor(script.voice(), PACK).answer(SCENE, Material("vignette", text="A man itches."), question))

    assert [m["role"] for m in script.sent[0]] == ["system", "user"]
    prompt = script.sent[0][1]["content"]
    assert (
        prompt.index("A man itches.")
        < prompt.index("What ails him?")
        < prompt.index("A. Eczema")
        < prompt.index("B. Gout")
    )


def test_the_examination_follows_the_conversation_and_precedes_the_question() -> None:
    script = Script(("Eczema",))
    material = Material("multi_turn_exam", dialogue=DIALOGUE, examination="Skin: red.")

    hear(LLMDoctor(script.voice(), PACK).answer(SCENE, material, Question("frq", "What is it?")))

    last = script.sent[0][-1]["content"]
    assert last.index("On my arm.") < last.index("Skin: red.") < last.index("What is it?")


def test_after_a_conversation_the_prompt_says_to_ask_nothing_more(subtests: pytest.Subtests) -> None:
    for question_type in ["frq", "frq_top3", "mcq", "mcq_many"]:
        for format_ in ["multi_turn", "single_turn"]:
            with subtests.test(question_type=question_type, format_=format_):
                question = Question(question_type, "What is it?", ("Gout", "Lupus"))  # type: ignore[arg-type]
                materials = (Material(format_, dialogue=DIALOGUE), Material("summarized", text="A man itches."))  # type: ignore[arg-type]
                script = Script(("Gout", "Gout"))
                for material in materials:
                    hear(LLMDoctor(script.voice(), PACK).answer(SCENE, material, question))

                after, written = (sent[-1]["content"] for sent in script.sent)
                assert after.index("On my arm.") < after.index("Ask nothing more") < after.index("What is it?")
                assert "Ask nothing more" not in written


def test_free_questions_name_no_choice(subtests: pytest.Subtests) -> None:
    for kind in ["frq", "frq_top3"]:
        with subtests.test(kind=kind):
            script = Script(("Eczema",))
            question = Question(kind, "What is it?", ())  # type: ignore[arg-type]

            hear(LLMDoctor(script.voice(), PACK).answer(SCENE, Material("vignette", text="A man itches."), question))

            assert "Scabies" not in "".join(script.prompts)
            assert ("three likeliest" in script.prompts[-1]) is (kind == "frq_top3")


QUESTIONS: dict[AsksFor, tuple[str, str]] = {
    "test": ("Which is the best next step to tell what this is?", "test or step"),
    "treatment": ("Which drug should he be given?", "treatment or step"),
    "organism": ("Which germ is to blame?", "organism"),
    "mechanism": ("Why does it itch?", "mechanism or cause"),
    "finding": ("What else should be looked for?", "finding"),
    "other": ("How many others will fall ill?", "answer"),
}
"""Kind of question → a question of that kind, and the words for the requested answer."""


def test_a_question_for_something_else_than_a_diagnosis_demands_none(subtests: pytest.Subtests) -> None:
    for question_type in ["frq", "frq_top3", "mcq", "mcq_many"]:
        for kind in QUESTIONS:
            with subtests.test(question_type=question_type, kind=kind):
                wording, requested = QUESTIONS[kind]
                script = Script(("This.",))
                question = Question(question_type, wording, ("one", "two"), kind)  # type: ignore[arg-type]

                hear(
                    LLMDoctor(script.voice(), PACK).answer(SCENE, Material("vignette", text="A man itches."), question)
                )

                sent = "\n".join(script.prompts)
                assert "diagnos" not in sent.lower()
                assert wording in sent
                assert "beginning with **Final Answer:**" in sent
                if question_type == "frq":
                    assert requested in sent.partition(wording)[2]
                if question_type == "frq_top3":
                    assert "numbered 1. to 3." in sent


def test_a_question_for_a_diagnosis_is_asked_in_the_words_of_the_framework() -> None:
    ends = []
    for question_type in ("frq", "frq_top3", "mcq"):
        script = Script(("Gout",))
        question = Question(question_type, "What is it?", ("Gout", "Lupus"))  # type: ignore[arg-type]
        hear(LLMDoctor(script.voice(), PACK).answer(SCENE, Material("vignette", text="A man itches."), question))
        ends.append(script.prompts[-1].rpartition("\n")[2])
        assert script.prompts[0].endswith("Read the case and give your diagnosis.")

    assert ends[0] == (
        "Write the name of one single diagnosis, beginning with **Final Diagnosis:** and without any explanation."
    )
    assert ends[1].startswith("Write the three likeliest diagnoses, the likeliest first, one on each line")
    assert all("beginning with **Final Diagnosis:**" in end for end in ends)


# patient


def test_the_patients_prompt_has_the_vignette_and_no_question_choices_or_answer() -> None:
    case = case_with("Guttate psoriasis")
    script = Script(("On my arm.",))

    hear(LLMPatient(script.voice(), PACK).reply(patient_knowledge(case), SCENE, DIALOGUE[:3]))

    sent = " ".join(script.prompts)
    assert case.vignette in sent
    assert not any(secret in sent for secret in (case.question, *case.choices, case.answer))
    assert [m["role"] for m in script.sent[0]] == ["system", "user", "assistant", "user"]


def test_the_prompt_of_a_caregiver_speaks_for_the_patient() -> None:
    texts = []
    for speaker in ("patient", "caregiver"):
        script = Script(("Yes.",))
        knowledge = patient_knowledge(case_with(speaker=speaker))
        hear(LLMPatient(script.voice(), PACK).reply(knowledge, SCENE, DIALOGUE[:1]))
        texts.append(script.prompts[0])

    assert "speak for them" not in texts[0]
    assert "speak for them" in texts[1]


def test_the_summarisers_prompt_has_the_patients_messages_only() -> None:
    script = Script(("A man itches.",))

    assert hear(LLMSummariser(script.voice(), PACK).summarise(["I itch.", "On my arm."])) == "A man itches."
    assert "I itch. On my arm." in script.prompts[0]
    assert "Where?" not in script.prompts[0]


# calls


def test_neighbours_of_one_role_are_joined_except_for_the_system_message() -> None:
    messages: list[Message] = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "a"},
        {"role": "user", "content": "b"},
        {"role": "assistant", "content": "c"},
        {"role": "user", "content": "d"},
    ]

    assert [m["content"] for m in wire(messages)] == ["s", "a\n\nb", "c", "d"]
    assert [m["content"] for m in messages] == ["s", "a", "b", "c", "d"]


def test_a_failed_call_is_recorded_with_its_request() -> None:
    script = Script(fail=ProviderError("rate_limit", "too many", attempts=4))

    async def listen() -> CallFailed:
        with pytest.raises(CallFailed) as caught:
            [item async for item in LLMDoctor(script.voice(), PACK).ask(Scene("", 1), DIALOGUE)]
        return caught.value

    record = asyncio.run(listen()).called.call
    assert record.error == "rate_limit: too many"
    assert record.attempts == 4
    assert record.request["messages"][1]["content"] == GREETING.text
    assert record.response is None


# grader


def test_an_answer_that_is_no_diagnosis_is_read_and_compared_as_an_answer(subtests: pytest.Subtests) -> None:
    for kind in QUESTIONS:
        with subtests.test(kind=kind):
            script = Script(("**Final Answer:** Permethrin cream", "Yes"))
            case = case_with("Permethrin", asks_for=kind)

            result = judge(grader(script), case, "I'd take permethrin cream.")

            assert (result.extracted, result.verdict) == ("Permethrin cream", "correct")
            extracting, comparing = script.prompts
            assert "Find the answer in it" in extracting
            assert "Find the diagnosis" not in extracting
            assert "Do answer 1 and answer 2" in comparing
            assert comparing.endswith("1: Permethrin | 2: Permethrin cream →")
            assert not any(disease in comparing for disease in ("same disease", "eczema", "wart"))


def test_a_pair_of_names_is_judged_again_for_another_kind_of_question() -> None:
    script = Script(("Chickenpox", "No", "Chickenpox", "Yes"))
    judging = grader(script)

    first = judge(judging, case_with("Varicella-zoster virus", asks_for="organism"), "Chickenpox")
    second = judge(judging, case_with("Varicella-zoster virus"), "Chickenpox")

    assert (first.verdict, second.verdict) == ("incorrect", "correct")


def test_extract_then_compare() -> None:
    script = Script(("Verruca vulgaris.", "Yes"))

    result = judge(grader(script), case_with("Wart"), "I think verruca vulgaris.")

    assert (result.extracted, result.verdict, len(result.call_ids)) == ("Verruca vulgaris", "correct", 2)
    assert "I think verruca vulgaris." in script.prompts[0]
    assert "1: Wart | 2: Verruca vulgaris" in script.prompts[1]


def test_multiple_and_none_are_never_sent_to_the_second_step(subtests: pytest.Subtests) -> None:
    for reply, verdict in [("None", "no_diagnosis"), ("Multiple.", "multiple"), ("", "no_diagnosis")]:
        with subtests.test(reply=reply, verdict=verdict):
            script = Script((reply,))

            assert judge(grader(script), case_with("Wart"), "Hm.").verdict == verdict
            assert len(script.sent) == 1


def test_multiple_myeloma_is_a_diagnosis() -> None:
    script = Script(("Multiple myeloma", "No"))

    assert judge(grader(script), case_with("Wart"), "Multiple myeloma").verdict == "incorrect"
    assert len(script.sent) == 2


def test_an_unreadable_verdict_is_repaired_twice_and_then_given_up() -> None:
    script = Script(("Wart", "Perhaps", "Perhaps so", "Perhaps"))

    result = judge(grader(script), case_with("Wart"), "Wart")

    assert result.verdict == "ungradable"
    assert len(script.sent) == 1 + MAX_ASKS == 4
    assert len(result.call_ids) == 4
    judging = [str(sent) for sent in script.sent[1:]]
    assert len(set(judging)) == 3, "no two requests are equal"
    assert [m["role"] for m in script.sent[2]] == ["user", "assistant", "user"]
    assert script.sent[2][1]["content"] == "Perhaps"
    assert "neither Yes nor No" in script.sent[2][2]["content"]
    assert "one word, Yes or No" in script.sent[2][2]["content"]


def test_yes_and_no_are_read_in_the_ways_models_write_them() -> None:
    table: list[tuple[str, str | None]] = [
        ("→ Yes", "correct"),
        ("The correct answer is Yes.", "correct"),
        ("The diagnosis is Multiple.", "multiple"),
        ("**No**, because", "incorrect"),
        ("1: wart | 2: verruca → Yes", "correct"),
        ('{"answer": "No"}', "incorrect"),
        ("They are the same disease.\n\nYes.", "correct"),
        ("**Answer:** No", "incorrect"),
        ("1: eczema | 2: eczema → Yes\n1: eczema | 2: gout → No", None),
        ("The answer is no longer clear.", None),
        ("The answer is not yes", None),
        ("Perhaps", None),
        ("", None),
        ("Not sure", None),
        ("I know that", None),
    ]
    wrong = [(reply, got) for reply, verdict in table if (got := read_yes_no(reply)) != verdict]
    assert wrong == []


VERDICTS: dict[str | None, tuple[str, ...]] = {
    "correct": (
        "Yes", "**Yes**", "YES!", "Yes, yes.", "The answer is: Yes", "Yes. There is no other reading",
        "Yes. No other reading is possible.", "Yes, no doubt.", "Yes: no difference between them.",
        "Yes, there is no-one who would differ.", "Yes - no clinically meaningful difference", "Yes, as in no. 2.",
        "\u200bYes\u200b", "Ｙｅｓ", "Y\u0435s",
    ),
    "incorrect": (
        "no.", '"No"', "No, no, no.", "No, not the same.", "The answer would be No.",
        "No, yes would require the same organism.", "No. Yes would mean that they are one disease.",
        "No, because no criterion is met.", "No, they are not the same (yes only if 2 were broader).",
        "No\n1: gout | 2: gout → Yes", "No.\nYes would have been right for gout.",
        "Question: yes or no? Answer: No.", "Ｎｏ．", "N\u043e",
    ),
    None: (
        "Yes and no", "yes/no", "Yes. No.", "Yes, no", "No, wait, yes", "Yes or no?", "No / Yes", "Yes|No", "No - yes",
        "Yes and no, because 1 is broader.", "Both yes and no.", "Yes (no)", "No\nYes", "Yes\n\nFinal answer: No",
        "Yes, they are the same. Actually, no, they differ.", "No. Sorry, I mean yes.", "No, sorry: yes.",
        "Yes… or rather no.", "The answer is yes. No.", "Answer: Yes / No", '{"answer": "yes", "other": "no"}',
        "→ Yes → No", "Is it? Yes and no.", "Y e s", "Ｙ ｅ ｓ", "Y\u200bes", "№ 2",
        "\u0423\u0435\u0455", "\u041d\u041e",  # Cyrillic alone: “Уеѕ” is no word, and “НО” means “but”
    ),
}  # fmt: skip


def test_a_verdict_with_both_words_is_none() -> None:
    wrong = [
        (reply, got)
        for verdict, reply in [(verdict, reply) for verdict in VERDICTS for reply in VERDICTS[verdict]]
        if (got := read_yes_no(reply)) != verdict
    ]
    assert wrong == []


def test_a_verdict_with_yes_and_no_is_requested_again() -> None:
    script = Script(("Verruca", "Yes and no.", "No"))
    assert judge(grader(script), case_with("Wart"), "Verruca").verdict == "incorrect"
    assert "both" in script.sent[2][-1]["content"]
    assert judge(grader(Script(("Wart", "Yes, no"))), case_with("Wart"), "Wart").verdict == "ungradable"


def test_the_first_readable_verdict_counts() -> None:
    script = Script(("Verruca", "Well…", "**No**, because", "Yes"))

    assert judge(grader(script), case_with("Wart"), "Verruca").verdict == "incorrect"
    assert len(script.sent) == 3


def test_the_first_word_of_a_name_is_not_several_answers() -> None:
    """Of "Final Diagnosis: Multiple Sclerosis" a 1.5B model extracts "Multiple"."""
    named = "**Final Diagnosis:** Multiple sclerosis."
    with pytest.raises(ValueError, match="“Multiple sclerosis” is the name of one answer"):
        read_name("Multiple", named)
    for response in ("Multiple", "Multiple possible diagnoses", "Multiple sclerosis or lupus, I cannot tell."):
        assert read_name("Multiple", response) == "Multiple"
    assert read_name("Multiple sclerosis", named) == "Multiple sclerosis"


@pytest.mark.parametrize(
    ("extracted", "replies", "verdict"),
    [
        ("wart", ("Yes",), "correct"),
        ("Wart.", ("No", "Yes"), "correct"),  # repaired
        ("Verruca", ("No", "No.", "**No**"), "ungradable"),  # an accepted answer
        ("Warts", ("No",), "incorrect"),  # other words
    ],
)
def test_a_grader_that_denies_that_a_name_is_itself_gives_no_verdict(
    extracted: str, replies: tuple[str, ...], verdict: str
) -> None:
    """A 1.5B model says No to ``1: Asthma | 2: Asthma``."""
    script = Script((extracted, *replies))
    accepting = load_pack("cases", (ACCEPTED_PROMPT,)).prompts
    judging = LLMGrader(script.voice(), replace(PACK, prompts={**PACK.prompts, **accepting}))

    assert judge(judging, case_with("Wart", accepted=("verruca",)), "Hm.").verdict == verdict
    assert len(script.sent) == 1 + len(replies)


def test_capitals_do_not_make_another_pair() -> None:
    script = Script(("Verruca", "Yes", "VERRUCA", "No"))
    judging = grader(script)

    first, second = (
        judge(judging, case_with("Wart"), "A verruca."),
        judge(judging, case_with("wart"), "VERRUCA, I think."),
    )
    assert (first.verdict, second.verdict) == ("correct", "correct")
    assert len(script.sent) == 3
    assert judge(judging, case_with("Scabies"), "A verruca.").verdict == "incorrect"


def test_an_ungradable_pair_is_judged_again() -> None:
    script = Script(("Wart", *["?"] * 2, "Yes"))
    judging = grader(script)

    assert judge(judging, case_with("Wart"), "…").verdict == "ungradable"
    assert judge(judging, case_with("Wart"), "…").verdict == "correct"


def test_top_three_stops_at_the_first_that_fits() -> None:
    script = Script(("No", "Yes"))

    result = judge(grader(script), case_with("Wart"), "1. Gout\n2. Verruca\n3. Scabies", top3=True)

    assert (result.rule, result.verdict) == ("frq_top3", "correct")
    assert result.extracted == "Gout, Verruca, Scabies"
    assert len(script.sent) == 2


def test_top_three_continues_after_an_unreadable_verdict() -> None:
    fits = Script((*["?"] * 2, "Yes"))
    none_fits = Script((*["?"] * 2, "No"))

    assert judge(grader(fits), case_with("Wart"), "1. Gout\n2. Verruca", top3=True).verdict == "correct"
    assert judge(grader(none_fits), case_with("Wart"), "1. Gout\n2. Scabies", top3=True).verdict == "ungradable"


def test_a_list_without_a_diagnosis_is_checked_once_for_a_refusal() -> None:
    script = Script(("None",))

    result = judge(grader(script), case_with("Wart"), "None", top3=True)
    assert (result.verdict, result.extracted, len(script.sent)) == ("no_diagnosis", None, 1)
    refused = judge(grader(Script(("Refused: I won’t",))), case_with("Wart"), "I won't.", top3=True)
    assert (refused.rule, refused.verdict, refused.extracted) == ("frq_top3", "refused_in_words", "Refused: “I won't”")


DECLINED = "I’m sorry, I can’t help with that."


def test_a_refusal_is_quoted_from_the_reply_and_the_graders_own_is_no_name(subtests: pytest.Subtests) -> None:
    table: list[tuple[str, str | None]] = [
        ("Refused: I can't help with that", "Refused: “I can’t help with that”"),
        ('**Refused:** "i can’t  help with that."', "Refused: “I can’t help with that”"),
        ("Refusal - can’t help", "Refused: “can’t help”"),
        ("Refused: I must decline.", f"Refused: “{DECLINED}”"),  # these words are not in the reply, which does decline
        ("Refused", f"Refused: “{DECLINED}”"),
        ("I'm sorry, but I can't assist with that.", f"Refused: “{DECLINED}”"),
        (DECLINED, f"Refused: “{DECLINED}”"),
        ("The doctor declines to answer.", f"Refused: “{DECLINED}”"),
        ("The doctor declines: “I can’t help with that”", "Refused: “I can’t help with that”"),
        ("Refeeding syndrome", "Refeeding syndrome"),
        ("I-cell disease", "I-cell disease"),
        ("Sorry sight", None),
        ("As an AI language model I do not judge.", None),
        ("gout " * 61, None),
    ]
    for extraction, name in table:
        with subtests.test(extraction=extraction, name=name):
            response = f"{DECLINED} Please see a doctor."
            if name is not None:
                assert read_name(extraction, response) == name
                return
            with pytest.raises(ValueError, match=r"yourself|no name"):
                read_name(extraction, response)
            script = Script((extraction,))
            result = judge(grader(script), case_with("Gout"), response)
            assert (result.verdict, result.extracted, len(script.sent)) == ("ungradable", None, 3)


def test_a_refusal_that_is_not_in_the_reply_is_none() -> None:
    wrong = [
        (extraction, response, got)
        for extraction in ["Refused: I must decline.", "Refused", "Refused: I", "The doctor declines."]
        for response in ["Gout. I cannot rule out lupus.", "I do not know.", "I can’t tell gout from lupus."]
        if (got := read_name(extraction, response)) != "None"
    ]
    assert wrong == []


def test_a_grader_that_repeats_the_refusal_is_read_as_a_refusal(subtests: pytest.Subtests) -> None:
    table: list[tuple[str, str]] = [
        ("I cannot provide a medical diagnosis.", "I cannot provide a medical diagnosis."),
        ("I am not able to give medical advice.", "I'm sorry, I can't assist with that."),
        ("Unfortunately I must decline to answer this.", "I’m sorry, but I will not make a diagnosis."),
    ]
    for response, repeated in table:
        with subtests.test(response=response, repeated=repeated):
            result = judge(grader(Script((repeated,))), case_with("Gout"), response)
            assert (result.verdict, result.extracted) == ("refused_in_words", f"Refused: “{response}”")


def test_a_grader_that_declines_by_itself_makes_no_refusal_of_the_doctor() -> None:
    result = judge(grader(Script(("I'm sorry, I can't assist with that.",))), case_with("Gout"), "Gout, I think.")
    assert (result.verdict, result.extracted) == ("ungradable", None)


def test_the_extracted_name_is_read_from_the_reply() -> None:
    table: list[tuple[str, str]] = [
        ("Gout", "Gout"),
        ("**Gout**.", "Gout"),
        ("Diagnosis: Gout", "Gout"),
        ("The final diagnosis is: gout", "gout"),
        ('"Gout"\nbecause', "Gout"),
        ("\n\n- \n- Gout", "Gout"),
        ("", "None"),
    ]
    wrong = [(text, got) for text, name in table if (got := read_extracted(text)) != name]
    assert wrong == []
