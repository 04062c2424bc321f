"""Formats of other tools, written from the database and read into it."""
