"""Rubrics: criteria for a conversation, the verdicts of judges on them, and the scores that follow."""
