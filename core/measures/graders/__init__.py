"""Graders of free responses measured: against one another, against themselves, as panels, and their error corrected."""
