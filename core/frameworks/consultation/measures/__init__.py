"""History taking: the parts of a case that a doctor uncovered, and its questions."""
