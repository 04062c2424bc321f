"""The pages of the dashboard: a file or a folder each, and the kit that they are made of."""
