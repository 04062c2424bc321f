"""The format of the case file; ``core.datasets.readers.formats`` discovers it."""
