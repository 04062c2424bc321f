"""Memorisation: how well a model continues, or recalls, a question it was shown half of."""
