"""The case file's format; ``core.datasets.readers.formats`` finds what lies here."""
