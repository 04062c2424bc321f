"""Imports the CRAFT-MD authors' release: ``importing.import_release`` reads its files and stores them as runs.

Knows the authors' folders, case files and prompts; everything after that is a run like any other (source "release").
"""
