"""Rules on clinical text: topics, facts, lay words, persons, and profiles by rule."""
