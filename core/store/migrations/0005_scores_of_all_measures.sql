-- Scores of all measures in the one table, with what they were read against and the way to those that have one.
--
-- What history taking, facts ledgers and marks on patients' replies had in tables of their own was computed, not paid
-- for: it goes, and is measured anew on demand. What people or models made stays: items, lists of facts, judgements.

DROP TABLE history_measures;
DROP TABLE ledgers;
DROP TABLE patient_marks;

ALTER TABLE scores ADD COLUMN against VARCHAR;  -- the case's content, and a hash of the list that it was measured by
ALTER TABLE scores ADD COLUMN series DOUBLE[];  -- the way to the value, point by point; NULL for most
