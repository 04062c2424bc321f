"""Plan a campaign with its cost before it starts, start it, watch it, stop it, resume it."""
