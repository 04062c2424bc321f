"""Conversations of other systems: three shapes of files, hostile files, and what the rules find about people."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from core.datasets.conversations import files
from core.datasets.conversations.conversation import (
    Field,
    ForeignConversation,
    Message,
    ReadConversations,
    read_conversations,
)
from core.datasets.conversations.files import load
from core.datasets.conversations.personal import masked, pointers
from core.errors import AnamnesisError

HEADER = "session,who,message"
TALK = "7,Pt,It itches\n7,Dr,Since when?\n"
CHAT: list[dict[str, Any]] = [{"role": "user", "content": "It itches"}, {"role": "assistant", "content": "Since when?"}]
MESSAGES = (Message("patient", "It itches"), Message("doctor", "Since when?"))


def read(path: Path, columns: Mapping[Field, str] | None = None) -> ReadConversations:
    loaded = load(path)
    chosen = loaded.guess_columns() | dict(columns or {})
    who = loaded.guess_speakers(chosen)
    return read_conversations(loaded, chosen, {name: seat for name, (seat, _) in who.items()})


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def json_lines(records: Iterable[Any]) -> str:
    return "".join(f"{json.dumps(record)}\n" for record in records)


def test_three_shapes_are_read_as_the_same_conversation(tmp_path: Path) -> None:
    prompt = {"prompt_id": "7", "prompt": CHAT[:1], "completion": "Since when?", "rubrics": []}
    parts = [CHAT[0], {"role": "assistant", "content": [{"type": "text", "text": "Since when?"}]}]
    shapes = {
        "rows.csv": f"{HEADER}\n{TALK}",
        "semicolons.csv": f"{HEADER}\n{TALK}".replace(",", ";"),
        "chat.jsonl": json_lines([{"id": "7", "messages": CHAT}]),
        "parts.jsonl": json_lines([{"id": 7, "messages": parts}]),
        "healthbench.jsonl": json_lines([prompt]),
        "array.json": json.dumps([{"conversation_id": "7", "messages": CHAT}]),
        "single.json": json.dumps({"id": "7", "messages": CHAT}),
        "text.jsonl": json_lines([{"id": "7", "prompt": "It itches", "response": "Since when?"}]),
    }
    wrong = {
        name: done
        for name, content in shapes.items()
        if (done := read(written(tmp_path, name, content))).conversations != [ForeignConversation("7", MESSAGES)]
        or done.faults
    }
    assert wrong == {}


def test_case_version_outcome_and_time_are_read(tmp_path: Path) -> None:
    rows = (
        "id,role,text,timestamp,case_id,model,result\n"
        "1,doctor,Since when?,2026-05-01T10:01:00,c1,v2,solved\n"
        "1,patient,It itches,2026-05-01T10:00:00,c1,v2,\n"
        "1,nurse,A parent,2026-05-01T10:02:00,c1,v2,\n"
    )
    (conversation,) = read(written(tmp_path, "all.csv", rows)).conversations
    assert conversation.messages == (*MESSAGES, Message("staff", "A parent"))
    assert (conversation.case, conversation.version, conversation.outcome) == ("c1", "v2", "solved")
    assert conversation.ended_at == 1777629720  # 10:02 UTC


NOTHING = 0
HOSTILE: dict[str, tuple[str | bytes, int, str]] = {
    # file: (content, conversations that can be used, words of the sentence)
    "long.csv": (f"{HEADER}\n" + TALK * 5_000, 1, ""),
    "html.csv": (f"{HEADER}\n7,Pt,<script>x</script>\n7,Dr,=1+1\n", 1, ""),
    "arabic.csv": (f"{HEADER}\n7,Pt,\u202bأشعر بحكة\u202c\n7,Dr,منذ متى؟\n", 1, ""),
    "chinese.csv": (f"{HEADER}\n7,Pt,皮肤发痒\n7,Dr,多久了？\n", 1, ""),
    "bom.csv": (f"\ufeff{HEADER}\n{TALK}", 1, ""),
    "latin.csv": (f"{HEADER}\n7,Pt,Ça gratte\n7,Dr,Depuis quand ?\n".encode("latin-1"), 1, ""),
    "mixed.csv": (f"{HEADER}\n7,Pt,Ça gratte\n".encode("latin-1") + "7,Dr,Où ça ?\n".encode(), 1, ""),
    "utf16.csv": (f"{HEADER}\n{TALK}".encode("utf-16"), 1, ""),
    "utf16.jsonl": (json_lines([{"id": "7", "messages": CHAT}]).encode("utf-16"), 1, ""),
    "empty-turns.csv": (f"{HEADER}\n7,Pt,\n7,Dr,  \n{TALK}", 1, "2 empty messages"),
    "one-speaker.csv": (f"{HEADER}\n7,Pt,It itches\n7,Pt,Still\n", NOTHING, "no message of the doctor"),
    "all-empty.csv": (f"{HEADER}\n7,Pt,\n7,Dr,\n", NOTHING, "no message of the"),
    "two-ids.csv": (f"{HEADER}\n{TALK}8,Pt,Hello\n8,Dr,Yes?\n{TALK}", 1, "conversation 7 begins again at line 6"),
    "two-ids.jsonl": (json_lines([{"id": "7", "messages": CHAT}] * 2), NOTHING, "conversation 7 begins again"),
    "cut.jsonl": (json_lines([{"id": "7", "messages": CHAT}]) + '{"id": "8", "mess', 1, "not JSON"),
    "no-messages.jsonl": (json_lines([{"id": "7", "messages": CHAT}, {"id": "8", "messages": []}]), 1, "no message"),
    "no-id.csv": (f"{HEADER}\n{TALK},Pt,Hello\n", 1, "has no id"),
    "short-row.csv": (f"{HEADER}\n{TALK}8,Pt,Hello\n8,Dr\n8,Dr,Yes?\n", 1, "2 fields instead of 3"),
    "last-row.csv": (f"{HEADER}\n{TALK}8,Pt,Hello\n8,Dr,Yes?\n8,Pt\n", 1, "8 may lack the message of line 6"),
    "two-cases.csv": (f"{HEADER},case\n7,Pt,Itch,a\n7,Dr,When?,b\n", NOTHING, "more than one case (a and b)"),
    "odd-time.csv": (f"{HEADER},time\n7,Pt,Itch,Monday\n7,Dr,When?,Monday\n", NOTHING, "'Monday', which is not ISO"),
    # not one conversation of these can be looked at
    "quote.csv": (f'{HEADER}\n7,Pt,"It itches\n7,Dr,Since when?\n', NOTHING, "line 2: the row that begins here"),
    "no-column.csv": ("session,message\n7,It itches\n", NOTHING, "no column is known to have the speaker"),
    "damaged16.csv": (b"\xff\xfeab\x00", NOTHING, "begins as UTF-16 and is damaged"),
    "binary.csv": (bytes(range(256)) * 20, NOTHING, "not UTF-8 text"),
    "empty.csv": ("", NOTHING, "the file is empty"),
    "header.csv": (f"{HEADER}\n", NOTHING, "no message that can be read"),
    "words.json": ('{"a": 1', NOTHING, "not JSON or it ends early"),
}


def test_hostile_files_get_one_sentence_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {}
    for name, (content, usable, words) in HOSTILE.items():
        try:
            done = read(written(tmp_path, name, content))
            sentences = [reason for _, reason in (*done.faults, *done.remarks)]
            found = len(done.conversations), "; ".join(sentences)
        except AnamnesisError as error:
            found = NOTHING, str(error)
        if found[0] != usable or words not in found[1] or "\n" in found[1] or bool(words) != bool(found[1]):
            wrong[name] = found
    assert wrong == {}
    assert len(read(tmp_path / "long.csv").conversations[0].messages) == 10_000
    html = read(tmp_path / "html.csv").conversations[0]
    assert [message.text for message in html.messages] == ["<script>x</script>", "=1+1"]
    arabic = read(tmp_path / "arabic.csv").conversations[0]
    assert arabic.messages[0].text == "\u202bأشعر بحكة\u202c"
    assert read(tmp_path / "latin.csv").conversations[0].messages[0].text == "Ça gratte"
    assert [message.text for message in read(tmp_path / "mixed.csv").conversations[0].messages] == [
        "Ça gratte",
        "Où ça ?",
    ]
    assert load(tmp_path / "mixed.csv").encoding == "Windows-1252 and UTF-8"
    monkeypatch.setattr(files, "MAX_BYTES", 100)
    with pytest.raises(AnamnesisError, match=r"long\.csv has 0 MB, and at most 0 MB"):
        load(tmp_path / "long.csv")


# Words in {braces} identify an invented person: KIND|WORDS. Written after the rules, which were not changed for them.
HELD_OUT = """
I am {name|Mrs Okoro} and my knee hurts.|Good morning, {name|Mr. Lindqvist}, what can I do for you?
My name is {name|Tom Reyes}.|my name's {name|Aisha}, I called yesterday.|Please ask {name|Dr. Lena Vogt} about it.
I was born on {date|12.03.1961}.|Date of birth {date|1984-11-30}.|It began on {date|3rd of May}.
The operation was on {date|March 12, 2019}.|Since {date|1 January 2024} I cough.|I came on {date|02/14/2025}.
Call me at {number|+44 20 7946 0958}.|My number is {number|0171 234 5678}.|Reach me on {number|(555) 010-4477}.
My MRN is {number|55-0192-77}.|Patient ID {number|AB 449211}.|Policy no. {number|4857736}.
SSN {number|123-45-6789}, is that right?|Insurance number: {number|K 9920 1177}.|{number|4857736209} is on the card.
Write to {email|anna.berg@example.org}.|It is {email|t_reyes+gp@mail.example.co.uk}, thanks.
{name|Jonas} here, calling for my mother {name|Erika}.|I live at {number|14 Bramble Lane}.
This is {name|Peter Nowak} from the night shift.|He turned forty on the {date|second of June}.
The pressure is 120/80, after 135/85 this morning.|I take 500 mg twice a day for 10 days.|My GP said it is fine.
The count was 250000 per microlitre.|In May I felt worse.|I may come 2 or 3 times.|Is it Parkinson or Lyme?
Temperature 38.5 to 39.2 since 3 days.|I weigh 82.5 kg at 1.82 m.|Room 12, second floor.|Take 1-2 tablets, 3-4 times.
I am Fine, thanks.|The ratio is 12-14-16.|Dr appointments take weeks.|3 episodes in 2024.|The dose is 1000-2000 units.
Covid-19 in 2021.|It hurts 7/10.|Blood sugar 180-200-240 over the day.|Vitamin B12 was 190 pg/ml.|Ward 7 called.
"""


def labelled(sentence: str) -> tuple[str, set[tuple[str, str]]]:
    """Return the text of a sentence, and its identifying words with their kinds."""
    text, people = "", set()
    for part in sentence.replace("}", "{").split("{"):
        kind, bar, words = part.partition("|")
        text += words if bar else part
        people |= {(kind, words)} if bar else set()
    return text, people


def test_what_the_rules_point_out_is_mostly_about_people() -> None:
    """A rule points out with a precision of at least 0.8; the counts stand in the documentation of the rules."""
    sentences = [part for line in HELD_OUT.strip().splitlines() for part in re.split(r"\|(?![^{}]*\})", line)]
    found, people, right = 0, 0, 0
    for sentence in sentences:
        text, identifying = labelled(sentence)
        pointed = set(pointers(text))
        words = {words for _, words in identifying}
        hits = {(kind, said) for kind, said in pointed if any(said in other or other in said for other in words)}
        found, people, right = found + len(pointed), people + len(identifying), right + len(hits)
    assert (len(sentences), found, right, people) == (47, 20, 19, 27)
    assert right / found >= 0.8
    assert masked("I am Mrs Okoro, born 12.03.1961.") == "I am Mrs [name], born [date]."
