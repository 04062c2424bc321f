-- Answers of people are judgements; each has the id of its line in a journal. The table annotations is moved here.

ALTER TABLE judgements ADD COLUMN IF NOT EXISTS line_id VARCHAR;
