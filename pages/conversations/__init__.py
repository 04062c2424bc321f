"""Find stored conversations, read one with all its answers, and step through the list by key."""
