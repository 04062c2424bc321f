"""The dashboard: navigation over pages/, nothing else."""

import streamlit as st

from pages.kit.navigation import navigation

st.session_state["_app"] = True
navigation().run()
