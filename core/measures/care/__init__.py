"""CARE: what an AutoMedic doctor's conversations are worth (Oh, Park, Kim, arXiv 2512.10195).

Four parts: accuracy S_A, conversational efficiency and strategy S_C, empathy S_E, robustness S_R.
"""
