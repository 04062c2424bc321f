"""Which simulated patients can be trusted: what they do wrong, how often, where, and the rule beside experts."""
