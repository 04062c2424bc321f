"""Two models, versions or runs compared case by case, and the formats of one model."""
