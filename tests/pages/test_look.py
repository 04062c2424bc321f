"""What a model writes is shown as it was written, and as nothing else."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from core.events import EndReason, Rule, Verdict
from core.export.visible import with_visible_marks
from pages.kit import look

MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])
HARMLESS = {
    "paragraph_open",
    "paragraph_close",
    "inline",
    "text",
    "softbreak",
    "hardbreak",
    "strong_open",
    "strong_close",
}
# What the page's renderer makes of finished text, after Markdown was read: links, addresses, icons, arrows
LATE = re.compile(
    r"(https?://|www(?=\.))[-.\w]+|(?<![\w])[-.\w+]+@[-\w]+(\.[-\w]+)+|:(material/\w+|[\w+-]+):|->|<-|--|>=|<=|~=", re.I
)
SNIPPETS = [
    "[a](http://b.c)", "![a](http://b.c/d.png)", "<img src=x onerror=alert(1)>", "<b>", "&lt;", "&#60;script&#62;",
    "# ", "> ", "- ", "1. ", "2) ", "***", "---", "===", "```", "~~~", "    ", "\t", "\n", "\r\n", "\r", "|", "$$",
    "\\", "a|b\n-|-\n", "**", "__", "~~", "[^1]", "[a]: http://b.c\n", "https://b.c/d", "www.b.c", "a@b.co", ":smile:",
    ":material/home:", ":red[", "]", "**Final Diagnosis:**", "->", "<!--", "-->", "<?php", "\u00a0", "\u2028", "\0",
    "é", "発疹", "flu", " ", ".", "!",
]  # fmt: skip
TEXTS = st.one_of(st.text(max_size=80), st.lists(st.sampled_from(SNIPPETS), max_size=12).map("".join))


def flat(tokens: list[Token]) -> list[Token]:
    return [inner for token in tokens for inner in (token, *flat(token.children or []))]


@given(TEXTS)
@example("Hello\n===")
@example("first\n\n    code")
@example("a\r# b")
@example("    \u00a0code")
@example("see https://evil.example and www.evil.example or a.b@evil.example")
def test_nothing_in_a_text_becomes_markup(text: str) -> None:
    tokens = flat(MARKDOWN.parse(look.plain(text)))
    assert {token.type for token in tokens} <= HARMLESS
    runs = "".join(token.content if token.type == "text" else "\n" for token in tokens if token.type != "inline")
    assert not LATE.search(runs)


@given(TEXTS)
def test_every_letter_of_a_text_is_still_there(text: str) -> None:
    tokens = flat(MARKDOWN.parse(look.plain(text)))
    visible = "".join(token.content for token in tokens if token.type == "text")

    def bare(words: str) -> str:
        stripped = words.replace("\0", "").replace("\ufffd", "").replace("*", "").replace(look._BREAK, "")
        return "".join(stripped.split())

    assert bare(visible) == bare(with_visible_marks(text))


def test_what_turns_the_reading_order_around_is_seen() -> None:
    assert look.plain("flu\u202egnp.x\u2066") == r"flu\[RLO\]gnp\.x\[LRI\]"


def test_only_the_words_final_diagnosis_keep_their_stars() -> None:
    assert look.plain("**Final Diagnosis:** Lipoma **now**") == r"**Final Diagnosis:** Lipoma \*\*now\*\*"


def test_lines_stay_lines() -> None:
    assert look.plain("one\ntwo") == "one  \ntwo"


def test_small_sums_have_more_decimals() -> None:
    in_words = {0.0: "$0.00", 0.00123: "$0.0012", 0.5: "$0.5000", 1.5: "$1.50", 1234.5: "$1,234.50"}
    assert {usd: look.money(usd) for usd in in_words} == in_words


def test_a_duration_has_one_unit() -> None:
    in_words = {0: "1 s", 42.4: "42 s", 90: "2 min", 3000: "50 min", 9000: "2.5 h"}
    assert {seconds: look.duration(seconds) for seconds in in_words} == in_words


def test_every_verdict_ending_and_rule_has_its_words() -> None:
    assert set(look.VERDICT) == set(Verdict.__args__)
    assert set(look.END) == set(look.END_SHORT) == set(EndReason.__args__)
    assert set(look.RULE) == set(look.RULE_SHORT) == {"usual", *Rule.__args__}
