-- What figures of whole studies are made of, counted: each write adds what it changed, less than nothing where answers
-- count otherwise than before (core.store.tallies).

CREATE TABLE tallies (
    run_id VARCHAR NOT NULL,
    case_key VARCHAR NOT NULL,
    content_hash VARCHAR,
    end_reason VARCHAR,                   -- of the conversation; NULL where there was none
    concluded BOOLEAN NOT NULL,           -- whether its last message holds a final diagnosis
    format VARCHAR NOT NULL,
    question_type VARCHAR NOT NULL,
    answered BOOLEAN NOT NULL,            -- false where the trial broke off before
    loose VARCHAR NOT NULL,               -- verdict; of choices by the paper's rule
    strict VARCHAR NOT NULL,              -- the same; of choices by the rule that wants exactly one
    n BIGINT NOT NULL                     -- answers
);

CREATE TABLE judged (
    run_id VARCHAR NOT NULL,
    rule VARCHAR NOT NULL,
    grader VARCHAR NOT NULL,
    prompt_hash VARCHAR NOT NULL,
    rule_version INTEGER NOT NULL,
    n BIGINT NOT NULL                     -- verdicts
);
