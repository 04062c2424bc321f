"""What pages show of a single case: facts, pictures, beliefs, why an answer is wrong."""
