"""Simulated patients: what they said that a patient would not."""
