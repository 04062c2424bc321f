"""CARE: accuracy, efficiency, empathy and robustness of conversations, down to the message."""
