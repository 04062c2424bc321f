"""Conversation quality: how a history is taken, and what conversations are worth beyond the answer."""
