"""Which simulated patients can be trusted: their errors, how often and where, and the rules compared with experts."""
