"""People sign in at a provider, each in a browser of their own, and what one makes is not the other's."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.core.test_access import FILE, OTHER, RUNNER, VIEWER
from tests.support.dashboard import settle
from tests.support.tabs import serving_people

pytest.importorskip("authlib", reason="a login needs Authlib: pip install -r requirements-server.txt")
from tests.support.oidc import CLIENT, SECRET, Provider, provider

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def sign_in() -> Iterator[Provider]:
    with provider() as login:
        yield login


@pytest.fixture
def address(tmp_path: Path, sign_in: Provider) -> Iterator[str]:
    (tmp_path / "access.toml").write_text(FILE)
    with serving_people(tmp_path, sign_in.address, CLIENT, SECRET) as home:
        yield home
    print((tmp_path / "server.log").read_text())


def entered(browser: Browser, address: str, provider: Provider, name: str) -> Page:
    """Open the dashboard in a new browser and sign in under a name."""
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    provider.person = name
    page.goto(f"{address}/runs")
    expect(page.get_by_text("This server is for people who have signed in.")).to_be_visible()
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{address}/**", timeout=30_000)
    expect(page.get_by_text("Sign out")).to_be_visible()
    settle(page)
    return page


def test_people_sign_in_and_find_what_is_theirs(
    browser: Browser, address: str, sign_in: Provider, tmp_path: Path
) -> None:
    rita = entered(browser, address, sign_in, RUNNER)
    expect(rita.get_by_text(f"{RUNNER} · may run")).to_be_visible()
    rita.goto(f"{address}/live")
    settle(rita)
    rita.get_by_role("button", name=re.compile("^play_circle.*34-year-old female|34-year-old female")).first.click()
    expect(rita.get_by_role("button", name="Pause")).to_be_visible()
    rita.wait_for_url(re.compile("trial="))
    trial = rita.url.partition("trial=")[2].partition("&")[0]

    otto, vera = (entered(browser, address, sign_in, name) for name in (OTHER, VIEWER))
    for page in (otto, vera):
        page.goto(f"{address}/live?trial={trial}")
        settle(page)
        expect(page.get_by_text("This consultation is not stored here")).to_be_visible()
    expect(vera.get_by_role("button", name=re.compile("Start the consultation"))).to_be_disabled()
    expect(otto.get_by_role("button", name=re.compile("Start the consultation"))).to_be_enabled()
    vera.screenshot(path=os.environ.get("SHOT", str(tmp_path / "vera.png")))
    outsider = entered(browser, address, sign_in, "someone@else.example")
    expect(outsider.get_by_text("have no access yet")).to_be_visible()
    outsider.get_by_role("button", name="Sign out").click()
    expect(outsider.get_by_role("button", name="Sign in")).to_be_visible()
