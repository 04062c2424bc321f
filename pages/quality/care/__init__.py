"""CARE: what conversations are worth in accuracy, efficiency, empathy and robustness, down to the message."""
