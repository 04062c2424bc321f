"""Consultations that somebody watches: new ones and replays, held, stepped and stopped through one session."""
