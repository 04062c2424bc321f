"""Experts judge conversations and diagnoses without knowing the model, answer vignettes, and are compared."""
