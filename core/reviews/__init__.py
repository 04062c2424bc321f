"""Reviews by experts: planning, assignment, answers, unblinding and withdrawal; every step is written to a journal."""
