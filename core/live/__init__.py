"""Live consultations: a session runs, pauses, steps and stops a new or a stored conversation."""
