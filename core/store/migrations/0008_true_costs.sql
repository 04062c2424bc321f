-- What a call kept in its provider's cache, and whose price it was charged at.

ALTER TABLE calls ADD COLUMN cache_write_tokens INTEGER;    -- of prompt_tokens; NULL where nobody counted them
ALTER TABLE calls ADD COLUMN price_source VARCHAR;          -- NULL where no price is known, and in calls of before
