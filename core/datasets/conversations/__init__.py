"""Conversations that another program recorded: read from tables, chat messages and prompts with completions."""
