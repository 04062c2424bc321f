"""The store: one DuckDB file, leased for moments; the journals folded into it; the project's only SQL.

Import from the modules: ``database.Store`` lends the file, which ``migrations`` keep up to date; ``fold.fold`` takes
the journals in; ``selection`` says which answers are looked at, and which of them may stand behind one figure; ``runs``
holds the records of runs; ``queries`` are functions of the cursor that a lease lends, by subject.
"""
