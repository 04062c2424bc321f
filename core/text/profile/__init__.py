"""Profiles by rule: a vignette as facts that a patient, or the clinical staff, can tell."""
