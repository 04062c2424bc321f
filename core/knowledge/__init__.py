"""What the reference cast knows of diseases: findings with rough likelihoods, made for a baseline and not for care."""
