"""Why answers are wrong, what doctors never ask, and what they believed on the way."""
