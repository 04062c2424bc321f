"""Anamnesis without its pages: cases, agents, models, protocols, campaigns, store and figures.

Nothing below this package imports Streamlit.
"""

__version__ = "0.5.0"
