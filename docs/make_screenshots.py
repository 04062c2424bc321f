"""Remakes the pictures in docs/: starts the dashboard on an empty database, uses it, and takes its picture.

Needs Chromium (Debian's package chromium, or the path in CHROMIUM).
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlparse

from playwright.sync_api import Browser, Page, sync_playwright

Core = Callable[..., str]
"""Runs a command of the project and returns what it printed."""
ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
WIDE = {"width": 1440, "height": 900}
NARROW = {"width": 390, "height": 844}
PATIENCE = 300_000
"""Milliseconds that each step may take: only a page that hangs reaches them."""
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


def environment(folder: Path) -> dict[str, str]:
    """Return the environment with a database and a models file in ``folder``."""
    models_file = folder / "models.local.toml"
    models_file.touch()
    return {**os.environ, "ANAMNESIS_DB": str(folder / "anamnesis.duckdb"), "ANAMNESIS_MODELS": str(models_file)}


@contextmanager
def dashboard(folder: Path) -> Iterator[str]:
    """Serve the dashboard on a free port with its database in ``folder``; yields its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = (folder / "server.log").open("wb")
    command = [sys.executable, "-m", "core", "serve", "--port", str(port), "--no-browser"]
    server = subprocess.Popen(command, cwd=ROOT, env=environment(folder), stdout=log, stderr=subprocess.STDOUT)
    try:
        address = f"http://127.0.0.1:{port}"
        _await(f"{address}/_stcore/health")
        yield address
    finally:
        server.terminate()
        server.wait(10)
        log.close()


def _await(url: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            time.sleep(0.3)
    raise SystemExit(f"{url} did not answer within {seconds:.0f} s.")


def settle(page: Page) -> None:
    """Wait until the page is drawn, with the widgets that load by themselves."""
    page.wait_for_function(_DRAWN, polling=300)
    page.wait_for_timeout(700)


_DRAWN = """() => {
    const page = document.querySelector('[data-testid="stApp"]');
    if (!page) return false;
    const running = page.dataset.testScriptState !== "notRunning" || page.querySelector('[data-testid="stSkeleton"]');
    const size = page.getElementsByTagName("*").length, now = performance.now();
    if (running || window.sizeBefore !== size) [window.sizeBefore, window.unchangedSince] = [size, now];
    return now - window.unchangedSince > 1500;
}"""


def take(page: Page, name: str, down: int = 0) -> None:
    """Save a picture of the page, scrolled ``down`` by that many pixels."""
    if down:  # not by the wheel, which a figure under the mouse would take
        page.get_by_test_id("stMain").evaluate("(main, down) => main.scrollTo(0, down)", down)
        page.wait_for_timeout(700)
    page.screenshot(path=str(DOCS / f"{name}.png"))


def live(page: Page, address: str) -> None:
    """Take Live in the middle of a consultation, and as it is presented at its end."""
    page.goto(f"{address}/live")
    settle(page)
    page.get_by_role("button", name="Start the consultation").click()
    page.get_by_role("button", name="Pause").first.wait_for()
    page.wait_for_timeout(6_000)
    take(page, "live-running")
    page.get_by_text("4×", exact=True).click()
    page.get_by_role("button", name="New consultation").first.wait_for()
    settle(page)
    page.get_by_text("Presentation", exact=True).click()
    page.get_by_text("Right answer:").wait_for()
    settle(page)
    take(page, "stage")


def pair(page: Page, address: str) -> None:
    """Take two doctors side by side in the middle of their consultations."""
    page.goto(f"{address}/live?live_mode=Two+doctors&live_protocol=Consultation")
    settle(page)
    page.get_by_role("combobox", name="Doctor on the right").click()
    page.get_by_role("option", name=re.compile("Oracle, random")).click()
    settle(page)
    page.get_by_role("button", name="Start both consultations").click()
    page.get_by_role("button", name="Pause").first.wait_for()
    page.get_by_test_id("stChatMessage").nth(11).wait_for()
    take(page, "live-pair", 170)


_OF_THE_SMALL_MODEL = "04812cd2b19e7f26878f"
"""Trial of the sample study in which the small model that was taught to take a history is the doctor."""


def sample(page: Page, narrow: Page, address: str) -> None:
    """Take Home with the sample study opened, its figures and a consultation of it; then remove it."""
    page.goto(address)
    page.get_by_role("button", name="Open the sample study").click()
    page.get_by_text("The sample study is stored").wait_for()
    settle(page)
    page.get_by_text("Measuring:").first.wait_for(state="hidden")
    page.mouse.wheel(0, -5_000)
    settle(page)
    take(page, "sample")
    figures(page, address, endings="accuracy?acc_tab=Endings+and+what-if", failures="failures")
    figures(narrow, address, narrow="")
    page.goto(f"{address}/live?trial={_OF_THE_SMALL_MODEL}")
    settle(page)
    page.get_by_role("button", name="New consultation").first.wait_for()
    settle(page)
    take(page, "live-model")
    page.goto(address)
    page.get_by_role("button", name="Remove it").click()
    page.get_by_role("button", name="Open the sample study").wait_for()


def branches(page: Page, address: str, core: Core) -> None:
    """Branch from the consultation that Live shows at message 3 and take both branches side by side."""
    parent = parse_qs(urlparse(page.url).query)["trial"][0]
    printed = core("branch", parent, "--turn", "3", "--say", "I'm 68 and I'm a woman.")
    branch = re.search(r"trial=([0-9a-f]+)|\b([0-9a-f]{20})\b", printed.replace(parent, ""))
    if branch is None:
        raise SystemExit(f"The branch named no conversation: {printed}")
    page.goto(f"{address}/conversations?conversations_part=Branches&trial={branch[1] or branch[2]}&other={parent}")
    settle(page)
    page.wait_for_timeout(2_000)
    take(page, "branches")


def debugger(page: Page, address: str) -> None:
    """Run every arm of a case three times on the debugger and take its matrix with one cell opened."""
    page.goto(f"{address}/debugger")
    settle(page)
    page.get_by_text(re.compile(r"^All \(\d+\)$")).click()
    page.get_by_text("More settings", exact=True).click()
    page.get_by_role("spinbutton", name="Trials").fill("3")
    page.keyboard.press("Enter")
    settle(page)
    page.get_by_role("button", name="Run the case").click()
    stop = page.get_by_role("button", name="Stop").first
    stop.wait_for()
    stop.wait_for(state="detached")
    page.get_by_role("radio", name="Request").first.wait_for()
    settle(page)
    take(page, "debugger")


def history(page: Page, address: str, core: Core) -> None:
    """Run the Consultation benchmark with several reference doctors, measure it, and take the page."""
    for doctor in ("oracle-direct", "oracle-random", "lower-bound", "bayes"):
        core("run", "--protocol", "consultation", "--doctor", f"reference/{doctor}", "--trials", "1")
    page.goto(f"{address}/quality")
    settle(page)
    page.get_by_role("button", name="Stop").first.wait_for(state="detached")
    settle(page)
    page.wait_for_timeout(2_000)
    take(page, "history")


def automedic(page: Page, address: str, core: Core) -> None:
    """Take a running AutoMedic consultation, a case with its profile, and CARE of a doctor under two caps."""
    page.goto(f"{address}/live?live_protocol=AutoMedic")
    settle(page)
    page.get_by_role("button", name="Start the consultation").click()
    page.get_by_role("button", name="Pause").first.wait_for()
    page.get_by_text("clinical staff", exact=False).nth(2).wait_for()
    page.wait_for_timeout(6_000)
    take(page, "live-automedic")
    page.goto(f"{address}/cases?dataset=library&case=library/cardiology-1")
    settle(page)
    take(page, "data", 190)
    for cap in ("20", "8"):
        core("run", "--protocol", "automedic", "--doctor", "reference/bayes", "--trials", "1", "--cap", cap)
    figures(page, address, care="quality?quality_part=CARE")


def models(page: Page, address: str, core: Core) -> None:
    """Take the models with one of one's own among them, chosen."""
    core("models", "add", "ward-llama", "--address", "http://127.0.0.1:8000/v1", "--model", "llama3.1:8b")
    page.goto(f"{address}/models?model=server/ward-llama")
    settle(page)
    page.wait_for_timeout(2_000)
    take(page, "models")


def runs(page: Page, address: str, core: Core) -> None:
    """Start a campaign on the page, name it, and take it and the home page when it is complete."""
    page.goto(f"{address}/runs")
    settle(page)
    page.get_by_text("New campaign", exact=True).click()  # folded, because a model can be asked
    settle(page)
    page.get_by_role("button", name="Start the campaign").click()
    page.wait_for_url(re.compile("run="))
    page.get_by_role("button", name="Delete").first.wait_for()  # a run that is not complete has none
    run = parse_qs(urlparse(page.url).query)["run"][0]
    core("label", run, "--name", "Rules on our own cases", "--tag", "baseline")
    for name, place, down in (("runs", f"runs?run={run}", 240), ("home", "", 0)):
        page.goto(f"{address}/{place}")
        settle(page)
        page.wait_for_timeout(4_000)
        take(page, name, down)


def core_in(folder: Path) -> Core:
    """Return a function that runs a command of the project on the database in ``folder`` and returns what it said."""

    def core(*arguments: str) -> str:
        command = [sys.executable, "-m", "core", *arguments]
        done = subprocess.run(command, cwd=ROOT, env=environment(folder), capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise SystemExit(f"{' '.join(arguments)} failed: {done.stderr.strip()}")
        return done.stdout

    return core


def figures(page: Page, address: str, down: int = 0, **places: str) -> None:
    """Take pages of figures by the names of their pictures: on an empty database they show what is published."""
    for name, place in places.items():
        page.goto(f"{address}/{place}")
        settle(page)
        page.wait_for_timeout(2_000)
        take(page, name, down)


def release(browser: Browser) -> None:
    """Take the pages that measure graders and patients, on the authors' release: figures only, none of its texts.

    ``ANAMNESIS_CRAFTMD_RELEASE`` names its folder; without it the pictures stay as they are.
    """
    place = os.environ.get("ANAMNESIS_CRAFTMD_RELEASE")
    if not place:
        print("graders.png and patients.png stay as they are: ANAMNESIS_CRAFTMD_RELEASE names no release.")
        return
    with tempfile.TemporaryDirectory() as folder:
        core = core_in(Path(folder))
        core("import", "craftmd", place)
        core("job", "regrade", "--grader", "reference/names")
        core("report", "patients")  # marks the conversations
        with dashboard(Path(folder)) as address:
            page = browser.new_page(viewport=WIDE)
            page.set_default_timeout(PATIENCE)
            figures(page, address, graders="trust")
            figures(page, address, patients="trust?trust=Simulated+patients")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, dashboard(Path(folder)) as address, sync_playwright() as playwright:
        executable = os.environ.get("CHROMIUM", "/usr/bin/chromium")
        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        page, narrow = browser.new_page(viewport=WIDE), browser.new_page(viewport=NARROW)
        for opened in (page, narrow):
            opened.set_default_timeout(PATIENCE)
        core = core_in(Path(folder))
        figures(page, address, accuracy="accuracy")
        figures(page, address, versions="compare?cmp_part=Versions")
        sample(page, narrow, address)
        models(page, address, core)
        live(page, address)
        branches(page, address, core)
        debugger(page, address)
        runs(page, address, core)
        history(page, address, core)
        automedic(page, address, core)
        release(browser)
        pair(page, address)
        browser.close()
    print(f"Pictures are in {DOCS.relative_to(ROOT)}/.")


if __name__ == "__main__":
    main()
