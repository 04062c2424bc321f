"""The tables of Johri et al. 2025 computed anew from an imported release, cell by cell.

``run.reproduce`` does it all. Knows the paper's rules and where its tables are wrong; no result is written down here.
"""
