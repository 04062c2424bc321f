"""Imports the results that a framework's authors released: ``importing.import_release`` stores them as runs."""
