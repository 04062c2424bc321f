"""Running many trials: the plan of what is to be done, the journal of what was done, and the engine between them."""
