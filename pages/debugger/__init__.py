"""Debug one case: every arm by one click, a matrix of verdicts, what was sent and came back, edits and variants."""
