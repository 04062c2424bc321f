-- What the messages of a call were made of.

ALTER TABLE calls ADD COLUMN parts JSON;    -- prompts, values, places in the messages; NULL or [] where none were recorded
