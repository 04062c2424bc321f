-- The time that an annotator took, for the cost of expert judgements.

ALTER TABLE annotations ADD COLUMN IF NOT EXISTS seconds DOUBLE;  -- from opening the item to saving; NULL: not known
