"""How well a history is taken (Liao et al., arXiv 2309.02077): ROUGE against a case's items, repetition, virtues."""
