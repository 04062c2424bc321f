"""What stored trials are worth: scores, figures with intervals, and what a reviewer said of them."""
