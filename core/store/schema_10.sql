-- Version 10: how much of a prompt the provider had read before, which costs less.

ALTER TABLE calls ADD COLUMN cached_tokens BIGINT;              -- of prompt_tokens; NULL where the provider does not say
