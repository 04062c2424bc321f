"""Find stored conversations, read one with all its answers, and go through the found ones by key."""
