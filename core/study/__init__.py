"""A study: a new doctor against the present one on the same cases, decided in at most two looks."""
