"""CRAFT-MD (Johri et al. 2025): a conversation, then the diagnosis asked for in every arm."""
