"""A rubric next to a conversation: verdicts, quoted words, the way to judge, and what differs between branches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.asking.scene import Turn
from core.debugger.rubric import RunningRubric, changed_criteria
from core.measures.rubrics.rubric import rubric_of
from core.store.database import Store
from tests.support.fake_provider import running
from tests.support.judged_rubric import RUBRIC, overlooks, store_judged
from tests.support.pages import trouble, words
from tests.support.rubric_judges import judge
from tests.support.stores import copy_of

Open = Callable[..., AppTest]


@pytest.fixture
def judged(database: Path) -> Store:
    return copy_of(store_judged, database.parent)


def test_a_criterion_leads_to_the_quoted_message(judged: Store, open_page: Open) -> None:
    page = open_page("transcripts", trial="run/2", read_closer="Rubric")
    assert not trouble(page)
    table = next(frame.value for frame in page.dataframe if "Criterion" in frame.value)
    assert table["Verdict"].tolist() == ["✓ Met", "✓ Met"]
    assert table["Messages"].tolist() == ["3", "3"]
    page.session_state["closer_run/2_criterion"] = 1
    page.run()
    assert ":orange-background[cough]" in words(page)
    other = open_page("transcripts", trial="run/4", read_closer="Rubric")
    verdicts = next(frame.value for frame in other.dataframe if "Criterion" in frame.value)
    assert verdicts["Verdict"].tolist() == ["✓ Met", "✗ Not met"]


def test_a_rubric_is_filled_in_while_the_consultation_goes_on(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    criteria = rubric_of(dict(RUBRIC), "here").all
    dialogue = [Turn("doctor", "Hello."), Turn("patient", "I feel ill."), Turn("doctor", "Any fever?")]
    with running(judge(overlooks)) as provider:
        rubric = RunningRubric("openai/fake", criteria, provider.base_url)
        rubric.update(dialogue[:1])
        assert rubric._request is not None
        rubric._request.join(20)
        rubric.update(dialogue[:2])  # the patient spoke last: nothing is asked
        assert not rubric.running
        assert {name: j.verdict for name, j in rubric.judgements.items()} == {"fever": "not met", "cough": "not met"}
        rubric.update(dialogue)
        rubric._request.join(20)
        later = [*dialogue, Turn("patient", "No."), Turn("doctor", "Any cough?")]
        rubric.update(later)
        rubric._request.join(20)
        rubric.update(later)
        assert {name: j.verdict for name, j in rubric.judgements.items()} == {"fever": "met", "cough": "met"}
        assert rubric.judgements["fever"].quotations[0].message == 2
        asked = [body["messages"][0]["content"] for body in provider.bodies]
    assert ["about fever" in text for text in asked] == [True, True, False]  # what is met is not asked about again


def test_changed_criteria_are_those_with_another_verdict_in_both() -> None:
    before = {"a": "met", "b": "not met", "c": "met"}
    assert changed_criteria(before, {"a": "met", "b": "met", "d": "met"}) == [("b", "not met", "met")]
