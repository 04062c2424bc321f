"""``python -m pages.kit.server OPTIONS``: the server of the dashboard, with Streamlit's own options."""

import sys

from streamlit.runtime.pages_manager import PagesManager
from streamlit.web import cli

from core import paths


def main(*options: str) -> None:
    """Serve the dashboard until the process is ended.

    ``app.py`` says which pages there are. Until it has run once, Streamlit would look for them among the files of the
    folder beside it, and would tell whoever came first by a link to a page that there is no such page.
    """
    PagesManager.uses_pages_directory = False
    cli.main(["run", str(paths.ROOT / "app.py"), *options], prog_name="streamlit")


if __name__ == "__main__":
    main(*sys.argv[1:])
