"""Statistics on plain arrays: intervals of a mean over cases. Knows nothing of runs, models or the database."""
