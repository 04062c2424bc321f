"""What experts say of conversations and diagnoses: questions, judgements, ties, and how far they agree."""
