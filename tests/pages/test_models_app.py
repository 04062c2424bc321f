"""The Models page: a model is added with its address and key, tested, put into a seat, removed; no key is kept."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.models.keys import remove_key
from tests.support.fake_provider import running
from tests.support.pages import button, trouble, words

Open = Callable[..., AppTest]
KEY = "sk-typed-by-a-visitor-1234567890"


@pytest.fixture
def own_models(database: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = database.parent / "models.local.toml"
    path.touch()
    monkeypatch.setenv("ANAMNESIS_MODELS", str(path))
    yield path
    for variable in ("ANAMNESIS_KEY_MINE", "OPENAI_API_KEY"):
        remove_key(variable)


def add(app: AppTest, address: str, model: str, name: str = "", key: str = "") -> AppTest:
    app.text_input(key="models_address").set_value(address)
    app.text_input(key="models_key").set_value(key)
    app.text_input(key="models_name").set_value(name)
    app.text_input(key="models_id").set_value(model).run()
    return button(app, "Test and save").click().run()


def test_a_model_is_added_tested_and_offered_for_every_seat(open_page: Open, own_models: Path) -> None:
    with running(lambda body: "Good morning, I am well.") as provider:
        app = add(open_page("models"), provider.base_url, "mine-8b", "mine", KEY)
        assert trouble(app) == []
        text = words(app).replace("\\", "")
        assert "server/mine" in text
        assert "yes: Good morning, I am well." in text
        assert {request.key for request in provider.requests} == {KEY}
        assert {body["model"] for body in provider.bodies} == {"mine-8b"}
    entry = tomllib.loads(own_models.read_text())["models"]["server/mine"]
    assert entry["base_url"] == provider.base_url
    assert entry["model_id"] == "mine-8b"
    assert KEY not in own_models.read_text()
    live = open_page("live", doctor="server/mine")
    assert trouble(live) == []
    assert live.selectbox(key="live_doctor").value == "server/mine"
    assert "server/mine" in live.selectbox(key="live_patient").options
    assert not button(live, "Start the consultation").disabled


def test_what_does_not_answer_is_said_in_a_sentence_and_kept_for_another_try(open_page: Open, own_models: Path) -> None:
    app = add(open_page("models"), "http://127.0.0.1:9/v1", "mine")
    assert trouble(app) == []
    assert "server/mine does not answer" in words(app).replace("\\", "")
    assert "server/mine" in tomllib.loads(own_models.read_text())["models"]
    app = open_page("models", model="server/mine")
    button(app, "Remove").click().run()
    assert trouble(app) == []
    assert "models" not in tomllib.loads(own_models.read_text())


def test_an_address_that_is_none_is_refused(open_page: Open, own_models: Path) -> None:
    app = add(open_page("models"), "not an address", "mine")
    (refused,) = trouble(app)
    assert "must look like `http://127.0.0.1:8000/v1`" in refused
    assert own_models.read_text() == ""
