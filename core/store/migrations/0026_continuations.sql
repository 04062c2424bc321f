-- Verdicts of continuations that measure noise by speaker: a stored conversation that goes on from one of its messages.
-- They count in no other figure; verdicts that count are in grades.

CREATE TABLE IF NOT EXISTS continuations (
    trial_id VARCHAR NOT NULL,            -- the stored conversation
    turn INTEGER NOT NULL,                -- the drawn message, from 0
    speaker VARCHAR NOT NULL,             -- of the drawn message
    again BOOLEAN NOT NULL,               -- whether the drawn message is spoken again; otherwise it is the stored one
    number INTEGER NOT NULL,              -- from 1, of the continuations of this kind
    format VARCHAR NOT NULL,
    question_type VARCHAR NOT NULL,
    dialogue JSON NOT NULL,               -- the messages after the stored ones: [[role, text], ...]
    response VARCHAR,                     -- the answer; NULL if there is none to grade
    rule VARCHAR NOT NULL,                -- as in grades; empty if there is no answer to grade
    grader VARCHAR NOT NULL,              -- as in grades; empty if there is no answer to grade
    prompt_hash VARCHAR NOT NULL,         -- of the grader's prompts; empty for rules
    rule_version INTEGER NOT NULL,
    extracted VARCHAR,
    verdict VARCHAR NOT NULL,             -- or the reason of an invalid answer
    detail VARCHAR NOT NULL,
    call_ids VARCHAR[] NOT NULL,
    judged_at DOUBLE NOT NULL             -- seconds since 1970; the newest counts
);
