"""JSON loses nothing, Markdown shows everything as text, HTML contains no element of a message."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

from markdown_it import MarkdownIt
from markdown_it.token import Token

from core.export.document import Document, document_of, document_of_events
from core.export.forms import to_json
from core.export.page import POLICY, to_html, to_markdown
from core.export.visible import visible
from core.store.database import Store
from tests.core.export.conversations import EVIL, evil_conversation, read_back
from tests.core.store.builders import Probed, Started, Utterance, a_case, a_header, a_stream


def of_messages(*texts: str) -> Document:
    messages = [Utterance(turn=n, role="patient", text=text) for n, text in enumerate(texts)]
    return document_of_events(a_case(), [Started(trial_id="t", case_key="ours/1", trial=0, seed=1), *messages])


# JSON


def test_json_can_be_read_back_as_the_same_document(store: Store) -> None:
    document = document_of(["run/1/0", "run/1/1"])
    assert read_back(to_json(document)) == document
    assert read_back(to_json(document)).conversations[0].events == tuple(a_stream())


def test_json_keeps_every_character() -> None:
    texts = [*EVIL, "half a pair: \ud83d, whole: 😀"]
    back = read_back(to_json(of_messages(*texts)))
    assert [e.text for e in back.conversations[0].events if isinstance(e, Utterance)] == texts


def test_json_has_format_and_version(store: Store) -> None:
    whole = json.loads(to_json(document_of(["run/1/1"])))
    assert (whole["format"], whole["version"]) == ("anamnesis-document", 1)
    (conversation,) = whole["conversations"]
    assert conversation["parent"] == {"trial_id": "run/1/0", "turn": 1, "changes": ["patient’s words"]}
    assert conversation["events"][2]["call"]["request"]["messages"][0]["role"] == "user"


# Markdown


def parsed(document: Document) -> list[Token]:
    """Return all tokens of the Markdown, also those inside blocks."""
    reader = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    blocks = reader.parse(to_markdown(document).decode())
    return [token for block in blocks for token in (block, *(block.children or []))]


FORBIDDEN = {"html_block", "html_inline", "link_open", "image", "fence", "code_block", "code_inline", "s_open", "hr"}


def test_nothing_in_markdown_is_html_link_image_or_code() -> None:
    kinds = {token.type for token in parsed(evil_conversation())}
    assert not kinds & FORBIDDEN


def test_messages_add_no_structure_to_markdown() -> None:
    harmless = [t.type for t in parsed(of_messages(*("Yes." for _ in EVIL))) if t.nesting == 1]
    hostile = [t.type for t in parsed(of_messages(*EVIL)) if t.nesting == 1]
    structure = {"heading_open", "bullet_list_open", "ordered_list_open", "blockquote_open", "table_open", "tr_open"}
    for kind in structure:
        assert hostile.count(kind) == harmless.count(kind), kind
    assert hostile.count("em_open") == harmless.count("em_open") == 0


def test_a_bar_in_a_name_adds_no_column() -> None:
    def cells(name: str) -> int:
        stream = [*a_stream()[:4], Probed(turn=1, differential=((name, 0.5),))]
        document = document_of_events(a_case(), stream, a_header(doctor=name, patient=name))
        return sum(token.type == "td_open" for token in parsed(document))

    assert cells("a | b || c") == cells("a b c")
    assert "a | b || c" in [t.content for t in parsed(document_of_events(a_case(), [], a_header(doctor="a | b || c")))]


def test_markdown_shows_every_line_of_every_message() -> None:
    """A Markdown parser gives back every line of every message; only indents and addresses are changed."""
    tokens = MarkdownIt("commonmark").parse(to_markdown(of_messages(*EVIL)).decode())
    lines: list[str] = []
    inside = 0
    for token in tokens:
        inside += {"blockquote_open": 1, "blockquote_close": -1}.get(token.type, 0)
        if inside and token.type == "inline":
            text = "".join("\n" if c.type in ("hardbreak", "softbreak") else c.content for c in token.children or [])
            lines += text.split("\n")
    expected = [line for text in EVIL for line in visible(text).split("\n") if line.strip()]
    actual = [line.replace("\u200b", "").replace("\u00a0", " ") for line in lines]
    assert actual[: len(expected)] == expected


def test_no_address_in_markdown_can_be_linked() -> None:
    text = to_markdown(of_messages(*EVIL)).decode()
    assert "evil.example" in text
    assert not re.search(r"https?://|www\.|@evil", text)


def test_the_final_diagnosis_is_the_only_emphasis_of_a_message() -> None:
    tokens = parsed(of_messages("**Final Diagnosis:** **Gout** _now_"))
    message = next(t for t in tokens if t.type == "inline" and "Gout" in t.content)
    assert [c.content for c in message.children or [] if c.type == "text" and c.content] == [
        "Final Diagnosis:",
        " **Gout** _now_",
    ]
    assert sum(c.type == "strong_open" for c in message.children or []) == 1


# HTML


class Elements(HTMLParser):
    """Every element with its attributes, and the text of the messages."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.messages: list[str] = []
        self._open = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag == "p" and dict(attrs).get("class") == "said":
            self.messages.append("")
            self._open = True

    def handle_endtag(self, tag: str) -> None:
        self._open = self._open and tag != "p"

    def handle_data(self, data: str) -> None:
        if self._open:
            self.messages[-1] += data


def test_html_contains_only_its_own_elements() -> None:
    own = Elements(to_html(document_of_events(a_case(), a_stream())).decode())
    evil = Elements(to_html(evil_conversation()).decode())
    # the harmless conversation has no branch and no reasoning; all other elements are the same
    assert {tag for tag, _ in evil.seen} <= {tag for tag, _ in own.seen} | {"bdi", "details", "summary"}
    assert not {tag for tag, _ in evil.seen} & {"script", "img", "iframe", "a", "link", "base", "object", "form"}
    names = {name for _, attributes in evil.seen for name in attributes}
    assert not {name for name in names if name.startswith("on")} | (names & {"href", "src", "style", "action", "xlink"})
    policies = [a["content"] for tag, a in evil.seen if tag == "meta" and a.get("http-equiv")]
    assert policies == [POLICY]


def test_html_shows_every_message() -> None:
    messages = Elements(to_html(of_messages(*EVIL)).decode()).messages
    assert messages[: len(EVIL)] == [visible(text) for text in EVIL]


def test_the_pages_own_style_fetches_nothing() -> None:
    page = to_html(document_of_events(a_case(), a_stream())).decode()
    assert "url(" not in page
    assert "@import" not in page
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_control_characters_become_visible() -> None:
    assert visible("a\0b\x07c\x7f\r\nd\re\u2028f\tg") == "a␀b␇c␡\nd\ne\nf\tg"
    assert visible("\u202eabc\u202c") == "[RLO]abc[PDF]"
    assert visible("עברית \u200f العربية 😀") == "עברית \u200f العربية 😀"
    assert visible("\ud800") == "\ufffd"
