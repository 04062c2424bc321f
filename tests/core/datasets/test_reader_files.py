"""Files of any kind: damaged parts are reported by line or record, and no file is misread."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.case import FINAL_QUESTION
from core.datasets.readers import files, read_cases
from core.datasets.readers.files import DamagedRow, FileRows
from core.datasets.reading import ReadCases
from core.errors import AnamnesisError, UsageError

FILES = Path(__file__).parent / "files"
RECORD = {"question": "A man is ill. What is it?", "options": {"A": "Gout", "B": "Croup"}, "answer_idx": "A"}


def read(tmp_path: Path, content: bytes | str, name: str = "some.jsonl", **more: Any) -> ReadCases:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_cases(path, "d", **more)


def test_an_unreadable_file_is_one_sentence(tmp_path: Path, subtests: pytest.Subtests) -> None:
    table: list[tuple[str, bytes, str]] = [
        ("a.csv", b"", r"a\.csv, line 1: the file is empty\."),
        ("a.json", b" \n ", r"a\.json, line 1: the file is empty\."),
        ("a.json", b"[]", r"a\.json holds no record"),
        ("a.json", b"hello", r"a\.json, line 1: this is not JSON"),
        ("a.json", b'[{"question": "x"},\n{"quest', r"a\.json, line 2: this is not JSON or it ends early"),
        ("a.json", b"[1, 2]", r"a\.json, record 1: this is no record with named fields"),
        ("a.jsonl", b"{oops\n{oops\n", r"a\.jsonl, line 1: this is not JSON"),
        ("a.csv", b"question,opa\nx\xff,y\n", r"a\.csv, line 2: the file is not UTF-8 text"),
        ("a.csv", "question,opa\nx,y\n".encode("utf-16"), r"a\.csv, line 1: the file is UTF-16 or UTF-32 text"),
        ("a.csv", "question,opa\nx,y\n".encode("utf-16-le"), r"a\.csv is neither text .* nor Parquet"),
        ("a.json", b"\x1f\x8b\x08 packed", r"a\.json is packed: unpack it"),
        ("a.csv", b"question,opa,opa\nx,y,z\n", r"a\.csv, line 1: the column opa occurs twice"),
        (
            "a.csv",
            b"vignette;answer\n" + b"x;y\n" * 5_000 + b"caf\xe9;y\n",
            r"a\.csv, line 5002: the file is not UTF-8 text",
        ),
        (
            "a.csv",
            b";".join(b"c%d" % n for n in range(1_001)),
            r"a\.csv has more columns than are read: .* 1,000 columns, ",
        ),
        ("a.csv", b'question,answer\nx,y\n"x,y\nx,y\n', r"a\.csv, line 3: the row that begins here cannot be read"),
        ("a.csv", b"x" * 100_000 + b",b\n1,2\n", r"not recognised \(it has x{59}…, b\)"),
        ("a.parquet", b"not parquet", r"a\.parquet is no Parquet file or is damaged"),
        ("a.parquet", b"PAR1 and then nothing", r"a\.parquet cannot be read as Parquet"),
        ("a.csv", b"colour,shape\nred,round\n", r"not recognised \(it has colour, shape\).*--format.*--columns"),
        ("a.json", b'{"a": 1, "b": {"c": 2}}', r"not recognised \(it has a, b\)"),
    ]
    for name, content, sentence in table:
        with subtests.test(name=name, content=content):
            with pytest.raises(AnamnesisError, match=sentence) as caught:
                read(tmp_path, content, name)
            assert "\n" not in str(caught.value)
            assert str(caught.value).endswith(".")


def test_line_ends_of_any_system_and_blank_lines_before_the_header(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for ends in ["\n", "\r\n", "\r"]:
        with subtests.test(ends=ends):
            table = ends.join(
                ["", "question,opa,opb,opc,opd,answer_idx", '"Ill,', 'he says. What?",a,b,c,d,B', "Ill?,a,b,c,d,E"]
            )
            reading = read(tmp_path, table.encode(), "a.csv")

            assert [case.answer for case in reading.cases] == ["b"]
            assert reading.rejected == [(5, "answer_idx 'E' is none of the options A to D")]


def test_impossible_values_are_rejected_with_a_short_reason(tmp_path: Path, subtests: pytest.Subtests) -> None:
    table: list[tuple[dict[str, Any], str]] = [
        ({"options": {str(n): f"o{n}" for n in range(27)}, "answer_idx": "3"}, "27 options, more than there are"),
        ({"id": "x" * 5000}, "has 5,000 characters, and 200 are the most"),
        ({"id": "a\nb"}, "line breaks"),
        ({"question": "A man\0 is ill. What?"}, "holds a NUL character"),
        ({"answer": "G\u043eut"}, "but answer_idx names 'Gout'"),
    ]
    for fields, reason in table:
        with subtests.test(fields=fields, reason=reason):
            ((number, message),) = read(tmp_path, orjson.dumps({**RECORD, **fields})).rejected
            assert (number, reason in message, len(message) <= 400) == (1, True, True)


def test_unicode_forms_of_accents_are_equal(tmp_path: Path) -> None:
    options = {"A": "M\u00e9ni\u00e8re disease", "B": "Gout"}
    reading = read(tmp_path, orjson.dumps({**RECORD, "options": options, "answer": "Me\u0301nie\u0300re disease"}))
    assert (reading.rejected, reading.cases[0].answer) == ([], options["A"])


def test_long_numbers_are_not_abbreviated(tmp_path: Path) -> None:
    lines = [orjson.dumps({"id": 1_234_567.0 + n, "vignette": f"Man {n} is ill.", "answer": "Gout"}) for n in range(2)]
    cases = read(tmp_path, b"\n".join(lines), format="plain").cases
    assert [case.case_key for case in cases] == ["d/1234567", "d/1234568"]


def test_a_path_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder: name a file in it"):
        read_cases(tmp_path, "d")
    with pytest.raises(AnamnesisError, match=r"cannot be read: File name too long\."):
        read_cases(tmp_path / ("x" * 300), "d")


def test_only_the_damaged_line_is_rejected(tmp_path: Path) -> None:
    lines = [orjson.dumps(RECORD), b'{"question": "A man', b"", b"[1]", b'"\xff"', orjson.dumps(RECORD)]
    reading = read(tmp_path, b"\n".join(lines))

    assert len(reading.cases) == 2
    assert [number for number, _ in reading.rejected] == [2, 4, 5]
    assert "not JSON" in reading.rejected[0][1]


def test_layouts_of_json(tmp_path: Path, subtests: pytest.Subtests) -> None:
    table: list[tuple[bytes, str]] = [
        (b"\xef\xbb\xbf" + orjson.dumps(RECORD) + b"\n", "a.jsonl"),
        (b"\xef\xbb\xbf" + orjson.dumps([RECORD]), "a.json"),
        (orjson.dumps(RECORD, option=orjson.OPT_INDENT_2), "a.json"),
        (orjson.dumps({"data": [RECORD]}), "a.json"),
        (orjson.dumps({name: [value] for name, value in RECORD.items()}), "a.json"),
        (orjson.dumps({name: {"0": value} for name, value in RECORD.items()}), "a.json"),
        (orjson.dumps(RECORD) + b"\n" + orjson.dumps(RECORD), "misnamed.json"),
        (orjson.dumps([RECORD]), "misnamed.jsonl"),
    ]
    for content, name in table:
        with subtests.test(content=content, name=name):
            reading = read(tmp_path, content, name)

            assert (reading.format, reading.rejected) == ("medqa", [])
            assert {case.answer for case in reading.cases} == {"Gout"}


def test_tables_with_other_separators(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for separator in [",", ";", "\t"]:
        with subtests.test(separator=separator):
            table = ["question opa opb opc opd answer_idx", "Ill? a b c d B"]
            reading = read(tmp_path, "\n".join(row.replace(" ", separator) for row in table), "a.csv")

            assert (reading.format, reading.cases[0].answer) == ("medbullets", "b")


def test_a_table_without_a_required_column_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        AnamnesisError, match=r"line 1: the columns opd, answer_idx are missing; a MedBullets case file"
    ):
        read(tmp_path, "question,opa,opb,opc\nIll?,a,b,c\n", "a.csv", format="medbullets")
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"question": ["Ill?"]}), path)
    with pytest.raises(AnamnesisError, match=r"a\.parquet: the columns options, answer_idx are missing"):
        read_cases(path, "d", "medqa")


def test_missing_files_and_unknown_formats_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no file"):
        read_cases(tmp_path / "nothing.csv", "d")
    with pytest.raises(UsageError, match="There is no format 'medq': choose auto, "):
        read(tmp_path, orjson.dumps(RECORD), format="medq")


def test_parquet_is_read_by_record(tmp_path: Path) -> None:
    path = tmp_path / "some.parquet"
    odd = {**RECORD, "answer_idx": "C"}
    pq.write_table(pa.Table.from_pylist([RECORD, odd, RECORD]), path)

    reading = read_cases(path, "d")

    assert (len(reading.cases), reading.unit) == (2, "record")
    assert reading.rejected == [(2, "answer_idx 'C' is none of the options A to B")]


def test_odd_parquet(tmp_path: Path) -> None:
    path = tmp_path / "some.parquet"
    mapped = pa.array([[("A", "Gout"), ("B", "Croup")]], type=pa.map_(pa.string(), pa.string()))
    pq.write_table(pa.table({"question": [RECORD["question"]], "options": mapped, "answer_idx": ["B"]}), path)
    assert [case.answer for case in read_cases(path, "d").cases] == ["Croup"]

    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(bytes([0, 0, 0, 0, 1, 0, 0, 0])), pa.py_buffer(b"\xff")]
    )
    pq.write_table(pa.table({"question": broken, "options": [["a", "b"]], "answer_idx": ["B"]}), path)
    with pytest.raises(AnamnesisError, match=r"some\.parquet, record 1: the Parquet file is damaged here"):
        read_cases(path, "d")

    twice = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["question", "question"])
    pq.write_table(twice, path)
    with pytest.raises(AnamnesisError, match="the column question occurs twice"):
        read_cases(path, "d")


def test_rows_can_be_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('a,b\n"x\ny",1\n2\n3,4,,\n')
    rows = FileRows(path)

    assert (
        list(rows)
        == list(rows)
        == [(2, {"a": "x\ny", "b": "1"}), (4, DamagedRow("1 fields instead of 2")), (5, {"a": "3", "b": "4"})]
    )
    assert rows.columns == ("a", "b")


# plain files, whose columns the user names


COLUMNS = {"vignette": "text", "options": "a+b+c", "answer": "label", "id": "nr", "specialty": "field"}


def test_columns_can_be_named() -> None:
    reading = read_cases(FILES / "plain.csv", "d", columns=COLUMNS)
    woman, boy = reading.cases

    assert (reading.format, reading.rejected) == ("plain", [])
    assert (woman.case_key, woman.answer, woman.choices, woman.specialty) == (
        "d/p1",
        "Cystitis",
        ("Cystitis", "Croup"),
        "Urology",
    )
    assert (boy.answer, len(boy.choices), boy.specialty) == ("Croup", 3, "Astrology")
    assert reading.remarks == []


def test_impossible_columns_are_refused(subtests: pytest.Subtests) -> None:
    table: list[tuple[dict[str, str], type[Exception], str]] = [
        ({**COLUMNS, "answer": "lable"}, AnamnesisError, r"has no column 'lable' \(given for answer\): it has a, b, c"),
        ({**COLUMNS, "colour": "a"}, UsageError, "--columns cannot say what 'colour' is"),
        ({"answer": "text"}, AnamnesisError, "needs columns for vignette or question, and for answer"),
    ]
    for columns, error, sentence in table:
        with subtests.test(columns=columns, error=error), pytest.raises(error, match=sentence):
            read_cases(FILES / "plain.csv", "d", columns=columns)


def test_a_question_column_used_as_vignette_is_not_the_question_too(tmp_path: Path) -> None:
    table = "question,answer\nA man is ill. Why?,Gout\nA boy is ill.,Croup\n"
    reading = read(tmp_path, table, "a.csv", columns={"vignette": "question", "answer": "answer"})

    assert [(case.vignette, case.question) for case in reading.cases] == [
        ("A man is ill.", "Why?"),
        ("A boy is ill.", FINAL_QUESTION),
    ]


def test_only_the_plain_format_takes_columns() -> None:
    with pytest.raises(UsageError, match="leave --columns out"):
        read_cases(FILES / "medqa.jsonl", "d", "medqa", {"answer": "answer_idx"})
    assert read_cases(FILES / "medqa.jsonl", "d", columns={"answer": "answer_idx"}).format == "plain"


def test_plain_options_and_answers(tmp_path: Path, subtests: pytest.Subtests) -> None:
    table: list[tuple[dict[str, Any], str]] = [
        ({"options": ["Gout", "Croup"], "answer": "croup"}, "Croup"),
        ({"options": ["Gout", "Croup"], "answer": "(B)"}, "Croup"),
        ({"options": '["Gout", "Croup"]', "answer": "A"}, "Gout"),
        ({"options": '{"1": "Gout", "2": "Croup"}', "answer": 2}, "Croup"),
        ({"options": "Gout | Croup", "answer": "Croup"}, "Croup"),
        ({"options": ["1", "2", "3"], "answer": 1}, "1"),
        ({"choices": {"A": "Gout", "B": "Croup"}, "answer": "B"}, "Croup"),
        ({"choices": "['Gout', 'Croup']", "correct_answer": "B. Croup"}, "Croup"),
        ({"options": ["Gout", "Croup", "Mumps"], "answer_index": 0}, "Gout"),
        ({"options": ["Gout", "Croup", "Mumps"], "label": 3}, "Mumps"),
        ({"a": "Gout", "b": "Croup", "c": "Mumps", "d": None, "Answer": "c"}, "Mumps"),
        ({"A": "Gout", "B": "Croup", "Correct Answer": "A"}, "Gout"),
        ({"option_a": "Gout", "option_b": "Croup", "answer": "croup"}, "Croup"),
        ({"opa": "Gout", "opb": "Croup", "opc": "Mumps", "answer": "B"}, "Croup"),
        ({"answer": "Gout"}, "Gout"),
        ({"options": None, "answer": "Gout"}, "Gout"),
    ]
    for fields, answer in table:
        with subtests.test(fields=fields, answer=answer):
            reading = read(tmp_path, orjson.dumps({"vignette": "A man is ill.", "question": "What is it?", **fields}))

            assert (reading.format, [case.answer for case in reading.cases]) == ("plain", [answer])
            assert reading.cases[0].case_key == "d/1"


def test_the_first_index_is_derived_from_the_file_or_must_be_given(tmp_path: Path) -> None:
    def lines(*answers: int) -> bytes:
        record = {"question": "A man is ill. What is it?", "choices": ["Gout", "Croup", "Mumps"]}
        return b"\n".join(orjson.dumps({**record, "answer": answer}) for answer in answers)

    assert [case.answer for case in read(tmp_path, lines(1, 0)).cases] == ["Croup", "Gout"]
    counted = read(tmp_path, lines(1, 3))
    assert [case.answer for case in counted.cases] == ["Gout", "Mumps"]
    assert counted.remarks == [(0, "answer counts the options from 1, as its values show")]
    with pytest.raises(UsageError, match="from 0 or from 1: say the number of the first with --columns first=0"):
        read(tmp_path, lines(1, 2))
    as_medqa = lines(2, 0).replace(b'"answer"', b'"answer_idx"').replace(b"choices", b"options")
    assert [case.answer for case in read(tmp_path, as_medqa).cases] == ["Mumps", "Gout"]
    path = tmp_path / "given.jsonl"
    path.write_bytes(lines(1, 2))
    assert [case.answer for case in read_cases(path, "d", columns={"first": "0"}).cases] == ["Croup", "Mumps"]
    with pytest.raises(AnamnesisError, match="it cannot count them from 0 and from 1"):
        read(tmp_path, lines(0, 3))


def test_invalid_plain_records_are_rejected(tmp_path: Path, subtests: pytest.Subtests) -> None:
    table: list[tuple[dict[str, Any], str]] = [
        ({"options": ["Gout", "Croup"], "answer": "Mumps"}, "the answer 'Mumps' is none of the options"),
        ({"options": ["Gout", "Croup"], "answer": "C"}, "the answer 'C' is none of the options A to B"),
        ({"options": ["Gout", "Croup"], "answer": 3}, "the answer '3' is none of the options A to B"),
        ({"options": ["Gout", "Croup"], "answer": "B) Gout"}, "the answer 'B) Gout' is none of the options"),
        ({"options": "{'A': Gout}", "answer": "A"}, "begin like JSON but are none"),
        ({"options": ["Gout", " "], "answer": "A"}, "option B is empty"),
        ({"options": ["Gout", "Croup"], "answer": ""}, "answer is empty"),
        ({"vignette": "", "question": None, "answer": "Gout"}, "vignette and question is empty"),
    ]
    for fields, reason in table:
        with subtests.test(fields=fields, reason=reason):
            valid = {"vignette": "A man is ill.", "question": "What is it?", "answer": "Gout"}
            odd = {**valid, **fields}
            reading = read(tmp_path, b"\n".join(orjson.dumps(record) for record in (valid, odd)), format="plain")

            assert len(reading.cases) == 1
            assert reading.rejected[0][0] == 2
            assert reason in reading.rejected[0][1]


@pytest.mark.slow
def test_ten_thousand_rows_take_seconds_and_report_progress(tmp_path: Path) -> None:
    lines = b"".join(
        orjson.dumps({**RECORD, "question": f"A {n}-year-old man is ill. {'He coughs. ' * 20}What?"}) + b"\n"
        for n in range(10_000)
    )
    began, progress = time.process_time(), list[tuple[int, int]]()
    assert len(read(tmp_path, lines, on_progress=lambda *step: progress.append(step)).cases) == 10_000
    assert time.process_time() - began < 20
    assert {planned for _, planned in progress} == {3}, "megabytes"
    assert [done for done, _ in progress] == sorted(done for done, _ in progress)
    assert {done for done, _ in progress} == {0, 1, 2}
    with pytest.raises(AnamnesisError, match=r"^some\.jsonl was not read to its end, as you asked"):
        read(tmp_path, lines, on_progress=lambda *step: progress.append(step), should_stop=lambda: progress[-1][0] == 1)


def test_too_large_cells_and_too_deep_json_are_rejected(tmp_path: Path) -> None:
    deep: object = "Gout"
    for _ in range(60):
        deep = [deep]
    rows = [{**RECORD, "question": "A" * 1_000_001}, {**RECORD, "notes": deep}, RECORD]
    reading = read(tmp_path, b"".join(orjson.dumps(row) + b"\n" for row in rows))
    assert len(reading.cases) == 1
    assert reading.rejected == [
        (1, "question has 1,000,001 characters, and 1,000,000 are the most"),
        (2, "notes has more than 50 lists or objects in each other"),
    ]
    for name, content in (("a.json", orjson.dumps(rows)), ("a.csv", "question,opa,opb,cop\n" + "x" * 1_000_001)):
        with pytest.raises(AnamnesisError) if name == "a.csv" else nullcontext():
            assert len(read(tmp_path, content, name).rejected) == 2


def test_a_file_beyond_a_limit_is_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """Limits are lowered, so that small files are beyond them; each file is read with the usual ones."""
    import openpyxl

    lines = b'{"question": "Is it gout or croup?", "answer": "Gout"}\n' * 3
    workbook = tmp_path / "t.xlsx"
    book = openpyxl.Workbook()
    for row in (["question", "answer", "age"], ["What is it?", "Gout", 40.0]):
        book.active.append(row)
    book.save(workbook)
    pq.write_table(pa.table({"question": ["a"] * 3, "answer": ["b"] * 3}), tmp_path / "t.parquet")
    table: list[tuple[str, bytes | None, dict[str, int], str]] = [
        ("long.jsonl", lines, {"MAX_LINE_BYTES": 20}, "line 1: the line is longer than is read"),
        ("large.json", b"[" + lines.replace(b"\n", b",")[:-1] + b"]", {"MAX_IN_MEMORY_BYTES": 50}, "JSON Lines"),
        ("parts.json", b"[" + lines.replace(b"\n", b",")[:-1] + b"]", {"_MOST_PARTS": 2}, "more lists and values"),
        ("values.json", b"[" + lines.replace(b"\n", b",")[:-1] + b"]", {"_MOST_VALUES": 2}, "more lists and values"),
        ("rows.jsonl", lines, {"MAX_ROWS": 2}, "more rows than are read"),
        ("t.parquet", None, {"MAX_ROWS": 2}, "more rows than are read"),
        ("t.parquet", None, {"MAX_BYTES": 5}, "MB: a list of cases has"),
        ("t.xlsx", None, {"MAX_IN_MEMORY_BYTES": 50}, "unpacks to more than is read of a workbook"),
        ("t.xlsx", None, {"_MAX_SHEET_ROWS": 1}, "it has a row after row 1"),
    ]
    for name, content, limits, words in table:
        with subtests.test(name=name, limits=limits):
            if content is not None:
                (tmp_path / name).write_bytes(content)
            assert len(list(FileRows(tmp_path / name))) == (1 if name == "t.xlsx" else 3)
            with monkeypatch.context() as patch:
                for limit, value in limits.items():
                    patch.setattr(files, limit, value)
                with pytest.raises(AnamnesisError) as refused:
                    list(FileRows(tmp_path / name))
                assert name in str(refused.value)
                assert words in str(refused.value)
    (record,) = (record for _, record in FileRows(workbook))
    assert record["age"] == "40"
    (tmp_path / "old.xls").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"x" * 20)
    with pytest.raises(AnamnesisError, match="an old Excel or Word"):
        FileRows(tmp_path / "old.xls")
    with pytest.raises(AnamnesisError, match="as you asked: nothing was imported"):
        list(FileRows(tmp_path / "rows.jsonl", should_stop=lambda: True))


def test_records_are_found_in_the_outermost_value_of_json() -> None:
    gout, croup = {"a": "Gout"}, {"a": "Croup"}
    table: list[tuple[object, object]] = [
        ([gout, croup], [gout, croup]),
        ({"a": ["Gout", "Croup"], "b": [1, 2]}, [{"a": "Gout", "b": 1}, {"a": "Croup", "b": 2}]),
        ({"a": {"0": "Gout", "1": "Croup"}}, [gout, croup]),
        ({"version": 1, "cases": [gout, croup]}, [gout, croup]),
        ({"cases": [gout], "more": [croup, gout]}, None),
        ({"a": {"x": 1}, "b": {"x": 2}}, None),
        ({"cases": [gout], "b": 1, "c": 2, "d": 3}, None),
        ({}, None),
        ("Gout", None),
    ]
    wrong = [(root, found) for root, expected in table if (found := files.records_within(root)) != expected]
    assert wrong == []
