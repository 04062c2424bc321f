"""Trust: how far graders, judges, experts and simulated patients can be believed."""
