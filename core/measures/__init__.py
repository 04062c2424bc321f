"""Figures from stored trials: measures of single trials, and metrics over many."""
