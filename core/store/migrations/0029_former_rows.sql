-- The rows of the former tables of opinions are judgements: core/store/former_rows.py moves them. Those of people have
-- the id of their line in a journal.

ALTER TABLE judgements ADD COLUMN IF NOT EXISTS line_id VARCHAR;
