"""What people judge: a review is planned, dealt, answered, withdrawn and unblinded here; every step is journaled."""
