"""The store: one DuckDB file, leased for moments; the journals folded into it; the project's only SQL.

Import from the modules: ``database.Store`` lends the file, ``fold.fold`` takes the journals in; runs, trials,
conversations, cases, figures, annotations and exports hold the queries, functions of the cursor that a lease lends.
"""
