"""Training sets of history-taking dialogues, and the fine-tuning of small local models on them (Liao et al.)."""
