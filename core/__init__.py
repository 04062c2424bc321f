"""Anamnesis without its pages: cases, agents, models, protocols, campaigns, store and figures.

Nothing below this package imports Streamlit.
"""

import os

# openpyxl parses with lxml if it is installed, and lxml resolves the entities of a workbook; without, defusedxml parses
os.environ.setdefault("OPENPYXL_LXML", "False")

__version__ = "0.6.0"
