"""The facts ledger: a case as atomic facts, and what became of each in a conversation."""
