"""Who judges: graders of free responses, and experts beside them."""
