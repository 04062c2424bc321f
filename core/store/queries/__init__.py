"""Queries by subject: functions of the cursor that a lease lends."""
