"""Reads the authors' release: their repository's folders, case files, prompts and quality control."""
