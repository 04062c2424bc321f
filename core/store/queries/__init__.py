"""SQL queries, one file for each table: functions of the cursor of a lease.

A query that joins several tables is in the file of the table whose rows it returns or counts.
"""
