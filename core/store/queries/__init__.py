"""SQL, a file for each table and named after it: functions of the cursor that a lease lends.

A query that joins several tables is in the file of the table whose rows it returns or counts.
"""
