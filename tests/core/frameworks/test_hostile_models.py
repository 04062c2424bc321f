"""Models with extreme faults, through every framework: each trial ends within its limits, with a plain sentence.

The table of benchmarks/README.md has the same rows: a row that is not true fails here.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from core.events import Answered, Event, Failed, Finished, Graded
from core.frameworks.base import Arm, default_pack
from core.frameworks.casting import Casting, CastNames
from core.jobs.progress import Progress
from core.models.base import Sampling
from core.models.failures import RetryPolicy
from core.models.registry import load_registry
from core.models.settings import SHIPPED
from core.prompts import load_pack
from core.words import VERDICT
from tests.core.frameworks import test_automedic_wire as automedic
from tests.core.frameworks import test_consultation_wire as consultation
from tests.core.frameworks.stage import CASE, SEED, Actors, calls, is_answer, is_extraction, of, role_of, verdicts
from tests.support.fake_provider import FakeProvider
from tests.support.playing import play_case
from tests.support.replies import Reply, failing

PAGE = Path(__file__).parents[3] / "benchmarks" / "README.md"
ARMS: tuple[Arm, ...] = (("multi_turn", "mcq"), ("multi_turn", "frq"))
RETRY = RetryPolicy(attempts=2, base_s=0.001, cap_s=0.002, max_wait_s=0.2)
ANSWER, SORRY = CASE.answer, "I can't help with that."
PAGE_OF_HTML = "<html><body><h1>Bad Gateway</h1></body></html>"
MODELS = """
[providers.openai]
bounds = { repeats = 5, characters_a_token = 8 }
[models."openai/doctor"]
prices = { input = 1.0, output = 1.0 }
[models."openai/solver"]
prices = { input = 1.0, output = 1.0 }
"""
SLOW = MODELS.replace("bounds", "timeouts = { call_s = 1.0, first_piece_s = 0.9, stall_s = 0.8 }\nbounds")
Makes = Callable[[str], Reply | str]


@dataclass(frozen=True)
class Hostile:
    """A faulty model in a seat, the verdicts that follow, and the sentence that reports the fault.

    ``reads`` is the reply of the grader's first step. Without ``in_conversation`` the fault is in the answers only.
    ``slow`` sets short timeouts, which a good reply meets only on an idle machine.
    """

    what: str
    makes: Makes
    verdicts: tuple[str, ...]
    says: str = ""
    seat: str = "doctor"
    reads: str = ANSWER
    in_conversation: bool = True
    slow: bool = False

    @property
    def row(self) -> str:
        """The row of the table in benchmarks/README.md."""
        counted = ", ".join(dict.fromkeys(VERDICT[verdict].lower() for verdict in self.verdicts))  # type: ignore[index]
        return f"| {self.what} | {counted} | {self.says or '–'} |"


def usage(*tokens: Any) -> Makes:
    return lambda line: Reply(line, usage=tokens)  # type: ignore[arg-type]


def sending(content: object) -> Makes:
    return lambda line: Reply("", deltas=[{"content": content}])


def always(*args: Any, **options: Any) -> Makes:
    return lambda line: Reply(*args, **options)


RIGHT = ("correct", "correct", "correct")
BROKEN = ("provider_error", "provider_error")
CUT = ("cut", "cut")
GAVE_UP, GAVE_NONE = "The model M gave no reply after 2 requests:", "The model M gave no reply:"
LATE = "check the provider's load, or raise the timeouts in the models file."
NO_CHAT = "try again, and check that the address serves OpenAI-compatible chat completions."
LIMIT = "cut: the answer was stopped at the limit of its length before one could be read in it"
UNREAD = (
    ("correct", "correct", "ungradable"),
    "The grader cannot be read: 10 of 10 verdicts are ungradable and count in no figure. Stop, and grade the stored "
    "answers again with another grader (job regrade).",
)
UNREADABLE: dict[str, Any] = {"reads": "None", "in_conversation": False}
HOSTILE = [
    Hostile("tells of 10¹⁵ tokens", usage(10**15, 10**15), RIGHT),
    Hostile("tells of −5 tokens", usage(-5, -5), RIGHT),
    Hostile("tells of null tokens", usage(None, None), RIGHT),
    Hostile("tells of 1.5 and “many” tokens", usage(1.5, "many"), RIGHT),
    Hostile("sends its text as a list of parts", lambda line: sending([{"type": "text", "text": line}])(line), RIGHT),
    Hostile("never ends", always(chunks=[f"{n:>999} " for n in range(20)]), CUT, LIMIT, **UNREADABLE),
    Hostile("says one line over and over", always(chunks=["I think. "] * 400), CUT, LIMIT, **UNREADABLE),
    Hostile("nests JSON 20,000 deep", always(chunks=['{"a":' * 20_000]), CUT, LIMIT, **UNREADABLE),
    Hostile("is cut (`length`)", always("Let us first", finish_reason="length"), CUT, LIMIT, **UNREADABLE),
    Hostile(
        "drips a word at a time", always("a " * 400, piece_delay_s=0.05), BROKEN,
        f"{GAVE_UP} the reply was not complete within 1 seconds; {LATE}", slow=True,
    ),
    Hostile(
        "stands still in its reply", always("one two three", stall_after=1), BROKEN,
        f"{GAVE_UP} the reply stood still for 0.8 seconds; {LATE}", slow=True,
    ),
    Hostile(
        "does not begin", always(delay_s=30), BROKEN,
        f"{GAVE_UP} no text came within 0.9 seconds; {LATE}", slow=True,
    ),
    Hostile(
        "refuses the key in mid-run (401)", lambda line: failing(401, "invalid key"), BROKEN,
        f"{GAVE_NONE} the provider did not accept the key (HTTP 401); check the key, what it may do, and which "
        "variable it is read from.", in_conversation=False,
    ),
    Hostile(
        "says nothing", always(""), ("empty", "empty"),
        f"{GAVE_UP} the reply had no text; look at the prompt, or try another model.", in_conversation=False,
    ),
    Hostile(
        "sends a web page (502)", always(status=502, error=PAGE_OF_HTML), BROKEN,
        f"{GAVE_UP} the provider answered HTTP 502 (a web page: Bad Gateway); the fault is the provider's: "
        "try again later.",
    ),
    Hostile(
        "sends a web page (200)", always(error=PAGE_OF_HTML), BROKEN,
        f"{GAVE_NONE} a web page came back instead of JSON (Bad Gateway); check the address: most end with /v1.",
    ),
    Hostile(
        "sends a number for text", sending(7), BROKEN,
        f"{GAVE_UP} the reply could not be read (the text of the chunk is no text); {NO_CHAT}",
    ),
    Hostile(
        "sends an object for text", sending({"text": "Gout"}), BROKEN,
        f"{GAVE_UP} the reply could not be read (the text of the chunk is no text); {NO_CHAT}",
    ),
    Hostile(
        "is kept back by a filter", always("I", finish_reason="content_filter"), ("refused", "refused"),
        f"{GAVE_NONE} the provider's content filter stopped the reply; the item is left out of the figures; other "
        "wording may pass.",
    ),
    Hostile(
        "refuses in words", always(SORRY), ("incorrect", "refused_in_words", "refused_in_words"),
        "Refused: “I can't help with that”", reads=f"Refused: {SORRY}", in_conversation=False,
    ),
    Hostile("as grader: refuses", always("I'm sorry, but I cannot assist with that."), *UNREAD, seat="grader"),
    Hostile("as grader: is cut", always("It says a lot. " * 30, finish_reason="length"), *UNREAD, seat="grader"),
    Hostile(
        "as grader: thinks without end", always("<think>Well, is it", finish_reason="length"),
        ("correct", "correct", "provider_error"),
        f"{GAVE_UP} it ran out of tokens while thinking (limit 16484); raise max_tokens, or ask for less reasoning "
        "effort.", seat="grader",
    ),
]  # fmt: skip


async def play(provider: FakeProvider, protocol: str, models: Path) -> list[Event]:
    names = CastNames("openai/doctor", "openai/patient", "openai/grader")
    other_seats = {"craftmd": {"summariser": "openai/summariser"}, "consultation": {"solver": "openai/solver"}}
    names = names.but(**other_seats.get(protocol, {"staff": "openai/staff"}))
    async with load_registry([SHIPPED, models], retry=RETRY) as registry:
        casting = Casting(registry, load_pack(protocol), Sampling(), provider.base_url, grading=default_pack())
        return await play_case(casting, names, CASE, ARMS, protocol=protocol, seed=SEED)


def script(hostile: Hostile, protocol: str, *, in_conversation: bool) -> Callable[[dict[str, Any]], Reply | str]:
    """Return the framework's script with the hostile model in its seat: in all requests, or only in answers."""
    plain: Callable[[dict[str, Any]], Reply | str] = {
        "craftmd": Actors(answer=ANSWER),
        "consultation": consultation.acting(solver=ANSWER),
        "automedic": automedic.acting(automedic.COMPLAINT, automedic.PULSE, "</end>", answer=ANSWER),
    }[protocol]

    def say(body: dict[str, Any]) -> Reply | str:
        role = role_of(body)
        line = (hostile.reads if is_extraction(body) else "Yes") if role == "grader" else plain(body)
        for_answer = role == "solver" or is_answer(body) or automedic.is_answer(body)
        is_hostile = (
            role == "grader"
            if hostile.seat == "grader"
            else role in ("doctor", "solver") and (in_conversation or for_answer)
        )
        return hostile.makes(str(line)) if is_hostile else line

    return say


def outcome(events: list[Event]) -> tuple[tuple[str, ...], str]:
    """Return the verdicts, in the order of arms and rules, and the sentence that reports the fault, or "".

    A grader is reported after ten unreadable verdicts, so the events count ten times.
    """
    reports = [e.detail for e in of(events, Answered) if e.detail] + [e.message for e in of(events, Failed)]
    progress = Progress(1)
    progress.note(events * 10)
    reports += [progress.trouble] if progress.trouble else []
    reports += [g.extracted or "" for g in of(events, Graded) if g.verdict == "refused_in_words"]
    (sentence,) = {re.sub("openai/(doctor|solver|grader)", "M", report) for report in reports} or {""}
    return tuple(verdict for arm in verdicts(events).values() for verdict in arm), sentence


@pytest.mark.parametrize(
    "hostile", [pytest.param(row, id=row.what, marks=pytest.mark.slow if row.slow else ()) for row in HOSTILE]
)
async def test_it_ends_in_time_is_never_counted_wrong_and_is_reported_in_one_sentence(
    fake_provider: FakeProvider, hostile: Hostile, tmp_path: Path
) -> None:
    models = tmp_path / "models.toml"
    models.write_text(SLOW if hostile.slow else MODELS)
    begun = time.monotonic()
    for protocol in ("craftmd", "consultation", "automedic"):
        everywhere = hostile.in_conversation and hostile.seat == "doctor"
        for in_conversation in (True,) if hostile.slow else (True, False) if everywhere else (False,):
            fake_provider.script = script(hostile, protocol, in_conversation=in_conversation)
            events = await play(fake_provider, protocol, models)
            assert isinstance(events[-1], Finished)
            assert outcome(events) == (hostile.verdicts, hostile.says), (protocol, in_conversation)
            for call in calls(events):
                assert 0 <= call.prompt_tokens < 10_000
                assert 0 <= call.completion_tokens < 10_000
                assert call.cost_usd is None or 0 <= call.cost_usd < 0.1
    # three conversations, each with a last call of two requests of one second
    assert not hostile.slow or time.monotonic() - begun < 3 * 2 * 1.0 + 60
    assert PAGE.read_text().count(f"\n{hostile.row}\n") == 1, "the table in the docs differs"
