"""Work that calls models or takes long: campaigns, re-grading, judging, profiles, completions, imports."""
