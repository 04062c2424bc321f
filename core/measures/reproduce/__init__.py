"""The tables of Johri et al. 2025, recomputed cell by cell from an imported release.

``remarks.reproduce`` is the entry point. The package has the paper's rules and the known errors of its tables, but no
stored results.
"""
