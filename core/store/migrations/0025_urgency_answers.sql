-- How soon the patient of a stored conversation must be seen, by the model that was its doctor, asked afterwards.

CREATE TABLE IF NOT EXISTS urgency_answers (
    trial_id VARCHAR NOT NULL,            -- the conversation
    model VARCHAR NOT NULL,               -- the doctor of its run
    prompt_hash VARCHAR NOT NULL,         -- of the prompt pack under which it was asked
    outcome VARCHAR NOT NULL,             -- answered, or why there is no level that counts
    level INTEGER,                        -- 1 immediately to 5 no appointment; NULL: no readable reply
    quotation JSON,                       -- {message, words, state: verified, repaired, unverified, given}
    reason VARCHAR NOT NULL,              -- the model's, in its words
    failure VARCHAR NOT NULL,             -- what the provider or the reader reported; empty if there is a level
    served_by VARCHAR,                    -- as the provider called the model of the last call
    call_ids VARCHAR[] NOT NULL,
    asked_at DOUBLE NOT NULL              -- seconds since 1970; of a conversation and prompts the newest with a level counts
);
