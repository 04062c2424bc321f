"""Graders of free responses: agreement, contradictions, panels, and accuracy corrected for their error."""
