"""Figures from what is stored: measures of trials, and metrics over many of them."""
