"""The store: one DuckDB file, leased for moments; the journals folded into it; the project's only SQL.

Import from the modules: ``tables`` declares the tables; ``database.Store`` lends the file, and ``renewal`` moves an
older one to the present schema; ``fold.fold`` takes the journals in; ``selection`` says which answers are looked at,
and which of them may stand behind one figure; ``runs`` holds the records of runs; ``queries`` are functions of the
cursor that a lease lends, by subject.
"""
