"""Imports what a framework's authors released: ``importing.import_release`` stores it as runs like any other."""
