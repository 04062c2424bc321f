"""Whether a model has seen a case before: given the first half of its vignette, can it write the second? (MELD)."""
