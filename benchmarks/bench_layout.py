"""What a visitor meets on each page: where its first figure is, how many controls are in sight, how far it scrolls.

Serves the sample study (``--empty``: no data) and opens each page in headless Chromium. A control is what can be
pressed or typed into without unfolding anything, also below the first screen: a list, a number with its steppers and a
table are one each, each segment is one. The menu and the toolbars of figures and tables do not count.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from common import ROOT, SMOKE, table

SIZES = {"wide": (1440, 900), "narrow": (390, 844)}
MOST_CONTROLS = 25
MEASURE = """() => {
    const main = document.querySelector('[data-testid="stMain"]');
    const block = document.querySelector('[data-testid="stMainBlockContainer"]');
    const inSight = (element) => element.checkVisibility({visibilityProperty: true, opacityProperty: true})
        && element.getBoundingClientRect().width > 0;
    const first = (selector) => [...main.querySelectorAll(selector)].filter(inSight)
        .map((element) => element.getBoundingClientRect().top + main.scrollTop);
    const whole = ["Selectbox", "MultiSelect", "NumberInput", "FileUploader", "ChatInput"]
        .map((name) => `[data-testid="st${name}"]`).join(", ");
    const apart = '.js-plotly-plot, [data-testid="stElementToolbar"], [data-testid="stDataFrame"]';
    const pressed = 'button, input:not([type="hidden"]), a[href], select, textarea, summary, [role="tab"]';
    const controls = [...main.querySelectorAll(pressed)].filter(inSight).filter((element) => !element.closest(apart))
        .map((element) => element.closest(whole) || element.closest("label") || element);
    const tables = [...main.querySelectorAll('[data-testid="stDataFrame"]')].filter(inSight);
    const all = [...new Set(controls), ...tables];
    return {
        figure: Math.round(Math.min(...first('.js-plotly-plot, [data-testid="stImage"]'))),
        table: Math.round(Math.min(...first('[data-testid="stDataFrame"]'))),
        controls: all.length,
        names: all.map((e) => (e.getAttribute("aria-label") || e.innerText || e.placeholder || "").trim().slice(0, 40)),
        screens: block.scrollHeight / innerHeight,
        broken: document.querySelectorAll('[data-testid="stException"]').length,
    };
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", help="addresses below the root; by default every page")
    parser.add_argument("--empty", action="store_true", help="serve no data")
    parser.add_argument("--pictures", type=Path, help="folder for a picture of each page in each size and theme")
    parser.add_argument("--names", action="store_true", help="print the names of the controls, too")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from pages.kit.navigation import PAGES

    pages = options.pages or ["" if name == "home" else name for group in PAGES.values() for name in group]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ANAMNESIS_DB"] = str(Path(folder) / "anamnesis.duckdb")
        if not options.empty:
            from core.store.database import Store
            from core.store.sample import add_sample

            add_sample(Store())
        measure(pages[:1] if SMOKE else pages, Path(folder), options.pictures, names=options.names)


def measure(pages: list[str], folder: Path, pictures: Path | None, *, names: bool) -> None:
    """Open the pages in both sizes, print a line for each, and take pictures in both themes."""
    from tests.support.dashboard import serving, settle, shared

    with serving(folder) as dashboard:
        for size, (width, height) in SIZES.items():
            rows = []
            for theme in ("light", "dark") if pictures else ("light",):
                context = shared.browser.new_context(
                    viewport={"width": width, "height": height}, color_scheme=theme, device_scale_factor=1
                )
                page = context.new_page()
                for path in pages:
                    page.goto(f"{dashboard.address}/{path}")
                    settle(page)
                    page.wait_for_timeout(1_500)  # figures and tables load by themselves
                    if theme == "light":
                        found = page.evaluate(MEASURE)
                        rows.append(line(path, found))
                        if names and size == "wide":
                            print(path or "home", found["names"], file=sys.stderr)
                    if pictures:
                        pictures.mkdir(parents=True, exist_ok=True)
                        name = path.translate(str.maketrans("?&=/", "____")) or "home"
                        page.screenshot(path=pictures / f"{name}_{size}_{theme}.png")
                context.close()
            heads = ("", "first figure px", "first table px", "controls", "screens", "exceptions")
            table(f"Pages, {size}: {width} × {height}; more than {MOST_CONTROLS} controls are marked !", heads, rows)
    shared.close()


def line(path: str, found: dict[str, Any]) -> tuple[str, ...]:
    tops = ("–" if math.isinf(found[what]) else str(found[what]) for what in ("figure", "table"))
    mark = "!" if found["controls"] > MOST_CONTROLS else ""
    return path or "home", *tops, f"{mark}{found['controls']}", f"{found['screens']:.1f}", str(found["broken"])


if __name__ == "__main__":
    main()
