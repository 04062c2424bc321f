"""History taking: what of a case a doctor uncovered, and how it asked."""
