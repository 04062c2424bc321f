"""Judges: graders of free responses, and experts."""
