"""Graders of free responses measured: who agrees with whom, what accuracy each gives, where they differ, who wavers."""
