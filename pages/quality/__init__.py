"""Quality: history taking, and the four parts of CARE."""
