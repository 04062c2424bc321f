"""Every format: the cases of its records, how it is recognised, and the reasons for rejected records."""

from __future__ import annotations

import json
import os
import string
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.case import FINAL_QUESTION, SPECIALTIES
from core.datasets.importing import preview_of
from core.datasets.lint import lint
from core.datasets.readers import FORMATS, read_cases
from core.datasets.readers.format import LeftOutError, RowError
from core.datasets.readers.item import known_specialty, split_item
from core.datasets.readers.values import options, single, texts, without_labels
from core.datasets.reading import ReadCases
from core.errors import AnamnesisError, UsageError

FILES = Path(__file__).parent / "files"
QUESTION = "Which of the following is the most likely diagnosis?"
BURNING = (
    "A 34-year-old woman comes to the clinic because of a burning feeling when she passes urine for 3 days. "
    "Her temperature is 37.0°C."
)


def read(name: str, **more: Any) -> ReadCases:
    return read_cases(FILES / name, "d", **more)


def records(name: str) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in (FILES / name).read_bytes().splitlines()]


def written(tmp_path: Path, records: list[dict[str, Any]], name: str = "some.jsonl") -> Path:
    path = tmp_path / name
    path.write_bytes(b"\n".join(orjson.dumps(record) for record in records))
    return path


def test_a_file_is_recognised_and_read_completely(subtests: pytest.Subtests) -> None:
    table: list[tuple[str, str, list[str]]] = [
        ("medqa.jsonl", "medqa", ["1", "2"]),
        ("medbullets.csv", "medbullets", ["1", "2"]),
        ("medbullets.json", "medbullets", ["1", "2"]),
        ("medxpertqa.jsonl", "medxpertqa", ["Text-1", "Text-2", "Text-3", "Text-4"]),
        ("medmcqa.json", "medmcqa", ["m1", "m2", "m4"]),
        ("headqa.json", "headqa", ["Booklet_1-1", "Booklet_1-2", "Booklet_2-1"]),
        ("mmlu_pro.jsonl", "mmlu-pro", ["11", "13"]),
        ("agentclinic.jsonl", "agentclinic", ["1", "2"]),
        ("agentclinic_nejm.jsonl", "agentclinic-nejm", ["1"]),
        ("mediq.jsonl", "mediq", ["0", "1", "2"]),
    ]
    for file, format, ids in table:
        with subtests.test(file=file, format=format):
            reading = read(file)

            assert (reading.format, reading.rejected) == (format, [])
            assert [case.case_key for case in reading.cases] == [f"d/{case_id}" for case_id in ids]
            # a file of the same shape may be private: its columns do not make it the published set
            assert {(case.dataset, case.source, case.licence) for case in reading.cases} == {("d", "", "")}
            first = reading.cases[0]
            if first.choices:
                assert all(case.answer in case.choices and len(case.choices) >= 2 for case in reading.cases)


def test_other_kinds_of_file_give_the_same_cases(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for file in ["medqa.jsonl", "medxpertqa.jsonl", "medmcqa.json", "mmlu_pro.jsonl", "mediq.jsonl"]:
        with subtests.test(file=file):
            expected = read(file)
            as_array = tmp_path / "array.json"
            as_array.write_bytes(orjson.dumps(records(file)))
            pq.write_table(pa.Table.from_pylist(records(file)), tmp_path / "table.parquet")

            for path in (as_array, tmp_path / "table.parquet"):
                again = read_cases(path, "d")
                assert (again.format, again.unit) == (expected.format, "record")
                assert [case.answer for case in again.cases] == [case.answer for case in expected.cases]
                assert again.cases[0].choices == expected.cases[0].choices


def test_medqa_splits_vignette_and_question() -> None:
    woman, boy = read("medqa.jsonl").cases

    assert (woman.vignette, woman.question, woman.answer) == (BURNING, QUESTION, "Cystitis")
    assert woman.choices == ("Cystitis", "Croup", "Gout", "Scabies", "Asthma")
    assert (woman.age, woman.sex, woman.speaker, woman.specialty) == (34, "female", "patient", "Other")
    assert (boy.age, boy.sex, boy.speaker) == (7, "male", "caregiver")


def test_medbullets_has_four_or_five_options_and_empty_fields_at_the_end() -> None:
    five, four = read("medbullets.csv").cases

    assert (len(five.choices), len(four.choices)) == (5, 4)
    assert five.vignette.endswith("Urine:\nNitrite: positive")
    assert five.question == QUESTION


def test_medxpertqa_removes_the_list_of_options_and_has_a_specialty() -> None:
    urine, man, woman, bone = read("medxpertqa.jsonl").cases

    assert (urine.vignette, urine.question, urine.specialty) == (BURNING, QUESTION, "Urology and Nephrology")
    assert len(urine.choices) == 10
    assert (man.specialty, woman.specialty) == ("Urology and Nephrology", "Obstetrics and Gynecology")
    assert bone.specialty == "Other"


def test_medmcqa_counts_from_one_or_from_zero_by_the_files_values(tmp_path: Path) -> None:
    reading = read("medmcqa.json")
    from_zero = [{**record, "cop": record["cop"] - 1} for record in records("medmcqa.json")]

    assert [case.answer for case in reading.cases] == ["Scabies", "Cystitis", "Croup"]
    assert reading.remarks == [(0, "cop counts the options from 1, as a 4 shows")]
    assert reading.left_out == [(3, "it is a question of several right options (choice_type multi)")]
    assert [case.specialty for case in reading.cases] == [
        "Dermatology",
        "Urology and Nephrology",
        "Pediatrics and Neonatology",
    ]
    again = read_cases(written(tmp_path, from_zero), "d")
    assert [case.answer for case in again.cases] == ["Scabies", "Cystitis", "Croup"]
    assert again.remarks == [(0, "cop counts the options from 0, as a 0 shows")]


def test_medmcqa_with_an_ambiguous_first_index_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, [{**record, "cop": 2} for record in records("medmcqa.json")])

    with pytest.raises(UsageError, match="--columns cop=0 or cop=1"):
        read_cases(path, "d")
    assert {case.answer for case in read_cases(path, "d", columns={"cop": "0"}).cases} == {"Gout"}
    assert {case.answer for case in read_cases(path, "d", columns={"cop": "1"}).cases} == {"Croup"}
    both = written(
        tmp_path, [{**record, "cop": cop} for record, cop in zip(records("medmcqa.json"), (0, 4, 1, 1), strict=True)]
    )
    with pytest.raises(AnamnesisError, match="cop 0 as well as cop 4"):
        read_cases(both, "d")


def test_an_open_sentence_is_the_question_and_a_bare_question_is_both() -> None:
    bare, open_end, _ = read("medmcqa.json").cases

    assert bare.vignette == bare.question == "Burrows between the fingers are seen in:"
    assert (open_end.vignette, open_end.question) == (BURNING, "The likely cause is")
    assert [(f.fault, f.severe) for f in lint([bare])] == [("bare_question", False)]


def test_the_question_is_found() -> None:
    table: list[tuple[str, str, str]] = [
        ("He is ill. He has a rash.", "He is ill. He has a rash.", FINAL_QUESTION),
        ("He is ill. Choose the best test.", "He is ill.", "Choose the best test."),
        ("He is ill. All are seen except", "He is ill.", "All are seen except"),
        ("Which is it?", "Which is it?", "Which is it?"),
        ("The femur", "The femur", "The femur"),
        ("He is ill.\nNa 140\nWhat is it?", "He is ill.\nNa 140", "What is it?"),
    ]
    wrong = [(whole, got) for whole, vignette, question in table if (got := split_item(whole)) != (vignette, question)]
    assert wrong == []


def test_headqa_as_exams_and_as_a_table(tmp_path: Path) -> None:
    reading = read("headqa.json")
    flat = [
        {
            "name": "Booklet_1",
            "qid": 1,
            "qtext": "Which organ makes bile?",
            "ra": 2,
            "category": "biology",
            "image": None,
            "answers": [{"aid": 1, "atext": "Heart"}, {"aid": 2, "atext": "Liver"}],
        }
    ]
    pq.write_table(pa.Table.from_pylist(flat), tmp_path / "flat.parquet")
    paired = [{**flat[0], "answers": {"aid": [1, 2], "atext": ["Heart", "Liver"]}}]

    assert [case.answer for case in reading.cases] == ["Cystitis", "A cyst", "Croup"]
    assert reading.remarks[0] == (2, "the question comes with an image, which is not read")
    assert [("category" in remark, row) for row, remark in reading.remarks[1:]] == [(True, 0)]
    for path in (tmp_path / "flat.parquet", written(tmp_path, paired)):
        (case,) = read_cases(path, "d").cases
        assert (case.case_key, case.answer) == ("d/Booklet_1-1", "Liver")


def test_mmlu_pro_reads_only_medical_categories() -> None:
    assert read("mmlu_pro.jsonl").left_out == [(2, "the category math is not medical")]


def test_agentclinic_contains_a_profile() -> None:
    boy, man = read("agentclinic.jsonl").cases
    assert boy.profile is not None
    assert man.profile is not None

    assert (boy.answer, boy.choices, boy.question, boy.speaker) == ("Croup", (), FINAL_QUESTION, "caregiver")
    assert [(f.key, f.value, f.lay) for f in boy.profile.demographics] == [
        ("age", "7-year-old", "He is 7 years old."),
        ("sex", "boy", "He is a boy."),
    ]
    assert [(f.key, f.value, f.lay) for f in boy.profile.basic] == [
        (
            "history of present illness",
            "The patient has had a barking cough for 2 nights.",
            "He has had a barking cough for 2 nights.",
        ),
        (
            "history of present illness",
            "His father reports that he sleeps badly.",
            "His father reports that he sleeps badly.",
        ),
        ("chief complaint", "Barking cough", "Barking cough."),
        ("associated symptoms", "Hoarse voice", "Hoarse voice."),
        ("associated symptoms", "No fever", "No fever."),
        ("social history, school", "In second grade.", "In second grade."),
    ]
    assert [(f.section, f.key, f.value) for f in boy.profile.optional] == [
        ("vital_signs", "temperature", "37.4°C"),
        ("vital_signs", "heart rate", "104 bpm"),
        ("vital_signs", "within normal limits", "yes"),
        ("examination", "chest examination, auscultation", "Noise on breathing in"),
        ("examination", "general appearance", "Tired"),
        ("laboratory", "blood tests, complete blood count, wbc", "9,000/mm³"),
        ("imaging", "neck x-ray", "A narrow windpipe"),
        ("other_tests", "audiometry", "Normal hearing"),
    ]
    assert boy.vignette.startswith(
        "7-year-old boy. History: The patient has had a barking cough for 2 nights. His father"
    )
    assert "Secondary Symptoms: Hoarse voice; No fever. " in boy.vignette
    assert "provided" not in boy.vignette
    assert "Find out" not in boy.vignette
    assert [f.key for f in man.profile.demographics] == ["age", "sex", "description"]
    assert [f.lay for f in man.profile.basic[:2]] == ["I have noticed pain in my big toe.", "I don't have injury."]


def test_agentclinic_nejm_names_its_image() -> None:
    reading = read("agentclinic_nejm.jsonl")

    assert (reading.cases[0].answer, reading.cases[0].profile) == ("Cystitis", None)
    assert reading.cases[0].images[0].url.startswith("https://")
    (place, remark), (_, unused) = reading.remarks
    assert place == 0
    assert "1 case has a picture that is only given by a URL" in remark
    assert unused.endswith(": patient_info, physical_exams, type")


def test_mediq_notes_which_of_two_answers_counts() -> None:
    plain, other_name, other_letter = (reading := read("mediq.jsonl")).cases

    assert (plain.vignette, plain.answer) == (
        "A 34-year-old woman has burning when she passes urine. It began 3 days ago.",
        "Cystitis",
    )
    assert (other_name.answer, other_name.synonyms) == ("Gout", ("Podagra",))
    assert (other_letter.answer, other_letter.synonyms) == ("Scabies", ())
    assert [number for number, _ in reading.remarks] == [2, 3, 0]
    assert reading.remarks[-1][1].endswith(": facts")


Change = Callable[[dict[str, Any]], Any]


def test_an_invalid_record_is_rejected_and_the_others_are_read(tmp_path: Path, subtests: pytest.Subtests) -> None:
    table: list[tuple[str, Change, str]] = [
        ("medqa.jsonl", lambda r: r.update(question=" "), "question is empty"),
        ("medqa.jsonl", lambda r: r.pop("question"), "question is missing"),
        ("medqa.jsonl", lambda r: r.update(question=["a"]), "question should be text but is a list"),
        ("medqa.jsonl", lambda r: r["options"].update(B=""), "option B is empty"),
        ("medqa.jsonl", lambda r: r.update(options={"A": "one"}), "fewer than two options"),
        ("medqa.jsonl", lambda r: r.update(options="A or B"), "options should be a list or letters with texts"),
        ("medqa.jsonl", lambda r: r.update(answer_idx="F"), "answer_idx 'F' is none of the options A to E"),
        ("medqa.jsonl", lambda r: r.update(answer_idx="B"), "the answer is 'Cystitis', but answer_idx names 'Croup'"),
        ("medqa.jsonl", lambda r: r.update(answer="Mumps"), "the answer is 'Mumps', but answer_idx names 'Cystitis'"),
        ("medxpertqa.jsonl", lambda r: r.update(label="K"), "label 'K' is none of the options A to J"),
        ("medxpertqa.jsonl", lambda r: r["options"].update(A="Stroke"), "not that of options"),
        ("medmcqa.json", lambda r: r.update(cop=5), "cop is 5, but the options count from 1 to 4"),
        ("medmcqa.json", lambda r: r.update(cop=-1), "the answer is not published"),
        ("medmcqa.json", lambda r: r.update(cop="x"), "cop should be a whole number but is 'x'"),
        ("medmcqa.json", lambda r: r.update(opd=""), "option D is empty"),
        ("mmlu_pro.jsonl", lambda r: r.update(answer_index=4), "answer_index is 4, but the options count from 0 to 3"),
        ("mmlu_pro.jsonl", lambda r: r.update(answer="B"), "the answer is 'Croup', but answer_index names 'Cystitis'"),
        ("mediq.jsonl", lambda r: r.update(context=[]), "context is empty or missing"),
        ("agentclinic.jsonl", lambda r: r["OSCE_Examination"].pop("Correct_Diagnosis"), "Correct_Diagnosis is missing"),
        ("agentclinic.jsonl", lambda r: r["OSCE_Examination"].update(Patient_Actor="he"), "Patient_Actor is no object"),
        (
            "agentclinic.jsonl",
            lambda r: r["OSCE_Examination"]["Test_Results"].update(Blood=[["WBC", 9]]),
            "Blood has a list of parts instead of words",
        ),
        ("agentclinic_nejm.jsonl", lambda r: r.update(answers="Croup"), "answers should be a list of text and correct"),
        ("agentclinic_nejm.jsonl", lambda r: r["answers"][0].update(correct=True), "2 of the answers are marked"),
        ("agentclinic_nejm.jsonl", lambda r: r["answers"][1].update(correct=False), "none of the answers is marked"),
    ]
    for file, change, reason in table:
        with subtests.test(file=file, change=change):
            valid = records(file)
            invalid = deepcopy(valid[0]) | ({"id": "odd"} if "id" in valid[0] else {})
            change(invalid)
            reading = read_cases(written(tmp_path, [*valid, invalid]), "d")

            assert len(reading.cases) == len(read(file).cases)
            assert [number for number, _ in reading.rejected] == [len(valid) + 1]
            assert reason in reading.rejected[0][1]


def test_values_of_a_record_are_read_or_rejected_with_the_reason() -> None:
    many = [f"option {n}" for n in range(27)]
    table: list[tuple[Callable[[dict[str, Any], str], Any], Any, Any]] = [
        (texts, ["a", " "], RowError("an entry of x is empty")),
        (texts, "a", RowError("x should be a list of texts")),
        (single, ["a", "b"], LeftOutError("it has several right answers (x)")),
        (single, [" a "], "a"),
        (single, [], RowError("x is empty")),
        (options, many, RowError("x has 27 entries, more than there are letters")),
        (options, {f"L{n}": f"option {n}" for n in range(27)}, RowError("there are 27 options")),
        (options, [{"key": "a", "value": "Gout"}, {"letter": "B", "text": "Croup"}], {"A": "Gout", "B": "Croup"}),
        (options, [("a", "Gout"), ("b", "Croup")], {"A": "Gout", "B": "Croup"}),
        (options, [{"key": "A"}, {"key": "B"}], RowError("an entry of x has no key and value")),
        (options, [("a", "Gout"), ("a", "Croup"), ("b", "Flu")], RowError("two options have the same letter")),
        (options, ["Gout", "Croup", "N/A", None], {"A": "Gout", "B": "Croup"}),
        (options, None, RowError("x is missing")),
    ]
    wrong = []
    for reader, value, expected in table:
        try:
            found: Any = reader({"x": value}, "x")
        except (RowError, LeftOutError) as error:
            found = error
        if isinstance(expected, Exception):
            if type(found) is not type(expected) or str(expected) not in str(found):
                wrong.append((value, found))
        elif found != expected:
            wrong.append((value, found))
    assert wrong == []


def test_records_that_a_published_layout_does_not_have(tmp_path: Path) -> None:
    """Abstracts without a decision, exams without questions, options without a letter, an unknown first number."""
    abstract = {"QUESTION": "Does it help?", "CONTEXTS": ["Of ten, five did."], "pubid": 7}
    decisions = ("unclear", "Maybe", None)
    reading = read_cases(
        written(tmp_path, [{**abstract, "pubid": n, "final_decision": d} for n, d in enumerate(decisions)]), "d"
    )
    assert [(case.case_key, case.answer) for case in reading.cases] == [("d/1", "maybe")]
    assert [
        (n, "instead of yes, no or maybe" in why, "missing" in why or "empty" in why) for n, why in reading.rejected
    ] == [(1, True, False), (3, False, True)]
    exams = tmp_path / "exams.json"
    for exam in ({"name": "Booklet"}, {"data": "none"}, 3):
        exams.write_bytes(orjson.dumps({"exams": [exam]}))
        with suppress(AnamnesisError):  # refused as a whole, or record by record
            assert read_cases(exams, "d", "headqa").cases == []
    without_letter = [{name: value for name, value in r.items() if name != "answer"} for r in records("mmlu_pro.jsonl")]
    assert [c.answer for c in read_cases(written(tmp_path, without_letter), "d", "mmlu-pro").cases] == [
        case.answer for case in read("mmlu_pro.jsonl").cases
    ]
    with pytest.raises(UsageError, match="cop=2 is not known"):
        read("medmcqa.json", columns={"cop": "2"})
    hidden = read_cases(written(tmp_path, [{**record, "cop": -1} for record in records("medmcqa.json")[:1]]), "d")
    assert (hidden.cases, len(hidden.rejected)) == ([], 1)
    assert not [words for _, words in hidden.remarks if "cop counts" in words]


def test_agentclinic_sorts_its_tests_and_tells_who_the_patient_is(tmp_path: Path) -> None:
    (record, *_) = records("agentclinic.jsonl")
    record["OSCE_Examination"]["Patient_Actor"]["Demographics"] = "newborn with a weak cry"
    record["OSCE_Examination"]["Test_Results"] = {
        "Vital_Signs": {"Pulse": "150"},
        "Ultrasound": {"Liver": "large"},
        "Electrocardiogram": {"Rhythm": "sinus"},
        "Complete_Blood_Count": {"WBC": "9,000"},
        "Hearing": "normal",
    }
    profile = read_cases(written(tmp_path, [record]), "d").cases[0].profile
    assert profile is not None
    assert [(fact.key, fact.value) for fact in profile.demographics] == [
        ("age", "newborn"),
        ("description", "newborn with a weak cry"),
    ]
    assert "a newborn" in str(profile.demographics[0].lay)
    sections = {fact.value: fact.section for fact in profile.optional}
    assert {name: sections[name] for name in ("150", "large", "9,000", "normal")} == {
        "150": "vital_signs", "large": "imaging", "9,000": "laboratory", "normal": "other_tests",
    }  # fmt: skip


def test_duplicate_records_and_other_values_are_rejected(tmp_path: Path) -> None:
    first, *_ = records("mediq.jsonl")
    path = tmp_path / "some.json"
    path.write_bytes(orjson.dumps([first, 5, first]))

    reading = read_cases(path, "d")

    assert reading.unit == "record"
    assert reading.rejected == [
        (2, "this is no record with named fields"),
        (3, "the case id 0 is already used in record 1"),
    ]


def test_headqa_gives_the_reasons_for_rejected_answers(tmp_path: Path) -> None:
    record = {"qid": 1, "qtext": "Which?", "ra": 3, "answers": [{"aid": 1, "atext": "a"}, {"aid": 2, "atext": "b"}]}
    odd = [record, {**record, "qid": 2, "answers": "none"}, {**record, "qid": 3, "answers": record["answers"] * 2}]

    assert [reason for _, reason in read_cases(written(tmp_path, odd), "d").rejected] == [
        "the right answer (ra) 3 is none of the answers 1, 2",
        "answers should be a list of aid and atext",
        "two answers have the same aid",
    ]


def test_names_of_specialties_are_mapped_to_those_of_the_library() -> None:
    assert known_specialty("  Cardiovascular  System ") == "Cardiology"
    assert known_specialty("Gynaecology & Obstetrics") == "Obstetrics and Gynecology"
    assert known_specialty("Anatomy") is None
    assert all(known_specialty(name) == name for name in SPECIALTIES)


def test_every_format_has_a_description() -> None:
    assert set(FORMATS) >= {
        "medqa",
        "medbullets",
        "medxpertqa",
        "medmcqa",
        "headqa",
        "mmlu-pro",
        "agentclinic",
        "plain",
    }
    for name, format_ in FORMATS.items():
        assert format_.name == name
        assert format_.title
        assert format_.reads.endswith(".")
        assert bool(format_.source) == (name not in ("plain", "anamnesis", "image-challenge"))


def test_published_files_are_read_completely(subtests: pytest.Subtests) -> None:
    for file, count, with_profile in [("agentclinic_medqa", 107, 107), ("mediq_craft_md", 140, 0)]:
        with subtests.test(file=file, count=count):
            folder = os.environ.get("ANAMNESIS_DATASETS")
            if not folder or not (Path(folder) / f"{file}.jsonl").is_file():
                pytest.skip(f"ANAMNESIS_DATASETS names no folder with {file}.jsonl")
            reading = read_cases(Path(folder) / f"{file}.jsonl", "d")

            assert (len(reading.cases), reading.rejected) == (count, [])
            assert sum(case.profile is not None for case in reading.cases) == with_profile
            assert sum(case.age is None for case in reading.cases) <= 1
            assert not [
                f
                for f in lint(reading.cases)
                if f.fault in ("duplicate", "repeated_choice", "answer_not_among_choices")
            ]


def test_headqa_answers_that_do_not_pair_up(tmp_path: Path, subtests: pytest.Subtests) -> None:
    table: list[tuple[object, str]] = [
        ({"aid": 1, "atext": ["a", "b"]}, "answers should be a list of aid and atext"),
        ({"aid": [1, 2], "atext": ["a"]}, "answers has 2 aid but 1 atext"),
    ]
    for answers, reason in table:
        with subtests.test(answers=answers, reason=reason):
            path = tmp_path / "odd.jsonl"
            path.write_bytes(orjson.dumps({"qtext": "A man is ill. Why?", "answers": answers, "ra": 1}))
            assert read_cases(path, "d").rejected == [(1, reason)]


def test_a_table_states_single_diagnoses_accepted_answers_and_development_cases(tmp_path: Path) -> None:
    table = tmp_path / "own.csv"
    table.write_text(
        "vignette,answer,single_diagnosis,accepted,development\n"
        'A man coughs.,Flu,yes,"Cold | Covid",1\n'
        "A man itches.,Eczema,,,no\n"
        "A man limps.,Gout,perhaps,,\n"
    )
    reading = read_cases(table, "own")
    assert [(case.single_diagnosis, case.accepted, case.development) for case in reading.cases] == [
        (True, ("Cold", "Covid"), True),
        (None, (), False),
    ]
    assert reading.rejected == [(4, "single_diagnosis should be yes or no but is 'perhaps'")]
    lines = [{"id": "1", "specialty": "Other", "vignette": "A man coughs.", "answer": "Flu", "accepted": ["Cold"],
              "development": True}]  # fmt: skip
    (own,) = read_cases(written(tmp_path, lines), "own").cases
    assert (own.accepted, own.development) == (("Cold",), True)


ASK = "A 45-year-old man has had a swollen ankle since he ran on Sunday. What is the most likely diagnosis?"
FOUR = ["Sprain", "Gout", "Fracture", "Cellulitis"]


def test_options_and_answers_of_other_shapes(tmp_path: Path) -> None:
    lettered = dict(zip("ABCD", FOUR, strict=True))
    keyed = {f"option{n}": text for n, text in enumerate(FOUR, start=1)}
    pairs = [{"letter": letter, "content": text} for letter, text in lettered.items()]
    table: list[tuple[dict[str, Any], str]] = [
        ({"answer_options": keyed, "correct_answer": "option2"}, "Gout"),
        ({"answer_options": str(keyed), "correct_answer": "option4"}, "Cellulitis"),
        ({"answer_options": orjson.dumps({**keyed, "option5": "n/a"}).decode(), "answer": "option1"}, "Sprain"),
        ({"possible_answers": FOUR, "answer": "C"}, "Fracture"),
        ({"options": [f"{n}. {text}" for n, text in enumerate(FOUR, start=1)], "answer": "2. Gout"}, "Gout"),
        ({"options": [f"{letter} : {text}" for letter, text in lettered.items()], "answer": "B"}, "Gout"),
        ({"options": "\n".join(f"{letter}. {text}" for letter, text in lettered.items()), "answer": "B"}, "Gout"),
        ({"options": ["1.5 mg", "2.5 mg"], "answer": "A"}, "1.5 mg"),
        ({"choices": pairs, "answer": ["D"]}, "Cellulitis"),
        ({"options": [{"id": "a", "text": "x", "option": "Gout"}, {"id": "b", "option": "Flu"}], "answer": "b"}, "Flu"),
        ({"options": pairs, "label": ["B"], "medical_task": "Diagnosis", "body_system": "Skeletal"}, "Gout"),
        ({"options": lettered, "answer": "Gout", "answer_idx": "B", "score": float("nan")}, "Gout"),
        # positions: the options are numbers, too
        ({"subject": "anatomy", "choices": ["3", "2", "1", "0"], "answer": 1}, "2"),
        ({"subject": "anatomy", "choices": FOUR, "answer": 3}, "Cellulitis"),
        ({"subject": "anatomy", "choices": FOUR, "answer": "Gout"}, "Gout"),
        ({"options": ["10", "20", "30"], "answer": "20"}, "20"),
    ]
    wrong = []
    for number, (fields, answer) in enumerate(table):
        path = tmp_path / f"{number}.jsonl"
        path.write_text(json.dumps({"question": ASK, **fields}) + "\n\n", encoding="utf-8")
        reading = read_cases(path, "d")
        if [case.answer for case in reading.cases] != [answer] or reading.rejected:
            wrong.append((fields, reading.cases, reading.rejected))
    assert wrong == []


def test_labels_of_options_are_removed_where_all_options_have_consecutive_labels() -> None:
    table: list[tuple[list[str], list[str]]] = [
        (["A. Cystitis", "B. Croup"], ["Cystitis", "Croup"]),
        (["A) Cystitis", "b)Croup"], ["Cystitis", "Croup"]),
        (["(A) Cystitis", "(B) Croup"], ["Cystitis", "Croup"]),
        (["[A] Cystitis", "[B] Croup"], ["Cystitis", "Croup"]),
        (["A: Cystitis", "B - Croup"], ["Cystitis", "Croup"]),
        (["A.) Cystitis", "B.) Croup"], ["Cystitis", "Croup"]),
        (["1. Cystitis", "2. Croup", "3. Gout"], ["Cystitis", "Croup", "Gout"]),
        (["(1) Cystitis", "2)Croup", "3 - Gout"], ["Cystitis", "Croup", "Gout"]),
        (["1. 5 mg", "2. 10 mg"], ["5 mg", "10 mg"]),
        ([f"{n}. Sign {n}" for n in range(1, 13)], [f"Sign {n}" for n in range(1, 13)]),
    ]
    unchanged = [
        ["1.5 mg", "2.5 mg"], ["1:2", "2:3"], ["1 - 2 weeks", "2 - 3 weeks"], ["1: 10", "2: 10"],
        ["1. Cystitis", "3. Croup"], ["2. Cystitis", "3. Croup"], ["0. Cystitis", "1. Croup"],
        ["1. Cystitis", "Croup"], ["C. difficile", "E. coli"], ["B. Croup", "A. Cystitis"], ["A. Cystitis", "2. Croup"],
        ["1 day", "2 days"], ["Cystitis", "Croup"],
    ]  # fmt: skip
    rows = [*table, *((options, options) for options in unchanged)]
    texts = [without_labels(dict(zip(string.ascii_uppercase, options, strict=False))) for options, _ in rows]
    assert [list(text.values()) for text in texts] == [expected for _, expected in rows]
    assert without_labels({"1": "1. Gout", "2": "2. Croup"}) == {"1": "Gout", "2": "Croup"}


def test_an_answer_means_the_same_option_in_every_format(tmp_path: Path) -> None:
    labelled, numbered = ["A. Cystitis", "B. Croup", "C. Gout"], ["1. Cystitis", "2. Croup", "3. Gout"]
    table: list[tuple[list[str], list[Any], list[str]]] = [
        (labelled, ["B. Croup", "croup", "B", "(b)"], ["Croup"] * 4),
        (numbered, ["2. Croup", "2) croup", "Croup", "B", "(2)", 3], ["Croup"] * 5 + ["Gout"]),
        (["Cystitis", "Croup", "Gout"], ["B. Croup", "2. Croup"], ["Croup"] * 2),
        (["1", "2", "3"], [2, 0], ["3", "1"]),
        (["1", "2", "3"], ["2", "1"], ["2", "1"]),
        (["1.5 mg", "2.5 mg"], ["2.5 mg", "A"], ["2.5 mg", "1.5 mg"]),
    ]
    own = {"specialty": "Other", "vignette": "A man is ill.", "question": "What is it?"}
    wrong = []
    for choices, answers, expected in table:
        for name in ("anamnesis", "plain"):
            lines = [{"id": str(n), **own, "choices": choices, "answer": answer} for n, answer in enumerate(answers)]
            reading = read_cases(written(tmp_path, lines), "d", name)
            if [case.answer for case in reading.cases] != expected or reading.rejected:
                wrong.append((name, choices, answers, [case.answer for case in reading.cases], reading.rejected))
    assert wrong == []
    contradiction = {"id": "1", **own, "choices": numbered, "answer": "1. Croup"}
    assert [n for n, _ in read_cases(written(tmp_path, [contradiction]), "d").rejected] == [1]
    unclear = [{"id": "1", **own, "choices": ["5", "7", "9"], "answer": 1}]
    with pytest.raises(UsageError, match="first=0 or first=1"):
        read_cases(written(tmp_path, unclear), "d")
    (case,) = read_cases(written(tmp_path, unclear), "d", columns={"first": "0"}).cases
    assert case.answer == "7"


def test_labelled_options_and_answers_of_published_layouts(tmp_path: Path) -> None:
    answers = [{"text": "A. Cystitis", "correct": False}, {"text": "B. Croup", "correct": True}]
    nejm = {"question": ASK, "answers": answers, "patient_info": "", "physical_exams": ""}
    options = {"A": "A. Cystitis", "B": "B. Croup"}
    mediq = {"id": 1, "context": ["He is ill"], "facts": [], "question": "What is it?", "options": options}
    for record in (nejm, {**mediq, "answer": "B. Croup", "answer_idx": "B"}):
        (case,) = read_cases(written(tmp_path, [record]), "d").cases
        assert (case.choices, case.answer, case.synonyms) == (("Cystitis", "Croup"), "Croup", ())


def test_columns_that_are_not_used_are_named(tmp_path: Path) -> None:
    own = {"question": ASK, "answer": "Gout"}
    lettered = {"A": "Gout", "B": "Sprain"}
    table: list[tuple[list[dict[str, Any]], str]] = [
        ([own | {"keuzes": "Gout / Sprain"}], "keuzes"),
        ([own, own | {"note": "x", "keuzes": ["Gout", "Sprain"]}], "note, keuzes"),
        ([own | {"options": FOUR, "Text": None, "page": ""}], ""),
        ([{"question": ASK, "options": lettered, "answer_idx": "A", "picture": "a.png", "specialty": ""}], "picture"),
        ([own | {"options": lettered, "answer": "C", "source": "exam"}, own | {"options": lettered}], "source"),
    ]
    got = []
    for records_, _ in table:
        reading = read_cases(written(tmp_path, records_), "d")
        remarks = preview_of(reading, "some.jsonl", "d").rows["Remarks"]
        got.append("; ".join(remark.partition(": ")[2] for row, remark in remarks if row == 0))
    assert got == [names for _, names in table]


def test_positions_of_a_whole_file_count_alike(tmp_path: Path) -> None:
    rows = [(["1", "2", "3"], 2, "3"), (["2", "1", "0"], 1, "1"), (FOUR, 0, "Sprain")]
    lines = [{"question": ASK, "choices": choices, "answer": answer} for choices, answer, _ in rows]
    assert [case.answer for case in read_cases(written(tmp_path, lines), "d").cases] == [text for *_, text in rows]
    table = pa.Table.from_pylist([{**line, "note": float("nan")} for line in lines])
    pq.write_table(table, tmp_path / "rows.parquet")
    assert [case.answer for case in read_cases(tmp_path / "rows.parquet", "d").cases] == [text for *_, text in rows]


def test_the_mark_of_an_option_is_no_diagnosis(tmp_path: Path) -> None:
    marks = ["option1", "B", "(c)", "3", "choice_2", "A, C"]
    path = tmp_path / "marks.csv"
    path.write_text(
        "vraag,keuzes,answer\n" + "".join(f'"{ASK}","Gout / Sprain","{mark}"\n' for mark in [*marks, "Gout"]),
        encoding="utf-8",
    )
    reading = read_cases(path, "d", columns={"question": "vraag"})
    assert [case.answer for case in reading.cases] == ["Gout"]
    assert [line for line, _ in reading.rejected] == list(range(2, 8))
    assert all(mark in why and "keuzes" in why for (_, why), mark in zip(reading.rejected, marks, strict=True))
    several = written(tmp_path, [{"question": ASK, "options": FOUR, "answer": answer} for answer in ("A, C", "B")])
    reading = read_cases(several, "d")
    assert ([case.answer for case in reading.cases], len(reading.left_out), reading.rejected) == (["Gout"], 1, [])


def test_records_by_id_are_all_read(tmp_path: Path) -> None:
    about = {"QUESTION": "Does rest help a sprain?", "CONTEXTS": ["Ten runners rested.", "Eight got well."]}
    decided = {f"77{n}": {**about, "final_decision": word} for n, word in enumerate(("yes", "maybe", "no"))}
    own = {f"case-{n}": {"question": ASK, "options": FOUR, "answer": text} for n, text in enumerate(FOUR)}
    alone = {"OSCE_Examination": {"Patient_Actor": {}}}
    table: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
        (decided, [("d/770", "yes"), ("d/771", "maybe"), ("d/772", "no")]),
        (own, [(f"d/case-{n}", text) for n, text in enumerate(FOUR)]),
        ({"case-0": own["case-0"]}, [("d/case-0", "Sprain")]),
        ({"x": {**own["case-0"], "id": "own"}}, [("d/own", "Sprain")]),
        (alone, []),
    ]
    for number, (root, expected) in enumerate(table):
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps(root, indent=1), encoding="utf-8")
        reading = read_cases(path, "d")
        assert [(case.case_key, case.answer) for case in reading.cases] == expected
    assert reading.rejected, "one record without demographics"
    case = read_cases(tmp_path / "0.json", "d").cases[0]
    assert (case.vignette, case.choices) == ("Ten runners rested. Eight got well.", ("yes", "no", "maybe"))


def test_a_value_that_is_no_number_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "nan.json"
    record = {"question": ASK, "options": FOUR, "answer": "Gout", "age": float("nan"), "far": float("-inf")}
    path.write_text(json.dumps([record, {**record, "answer": float("nan")}]), encoding="utf-8")
    reading = read_cases(path, "d")
    assert [case.answer for case in reading.cases] == ["Gout"]
    assert reading.rejected == [(2, "answer is empty")]
    path.write_text('[{"answer": NaNo}]', encoding="utf-8")
    with pytest.raises(AnamnesisError, match=r"nan\.json, line 1"):
        read_cases(path, "d")
