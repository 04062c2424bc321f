"""The bench for one case: what is pasted, kept as variants, forked and taken apart."""
