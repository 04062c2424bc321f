"""How soon a patient must be seen: levels of the cases, and the levels that doctors gave after the conversations."""
