"""Readers of cases: our own library, and files that the user brings."""
