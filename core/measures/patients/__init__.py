"""Errors of simulated patients: replies that a real patient would not give."""
