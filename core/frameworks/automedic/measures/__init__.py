"""CARE: the quality of conversations with a patient and clinical staff (Oh, Park, Kim, arXiv 2512.10195).

Four parts: accuracy S_A, conversational efficiency and strategy S_C, empathy S_E, robustness S_R.
"""
