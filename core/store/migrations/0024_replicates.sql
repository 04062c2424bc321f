-- Verdicts of replicates that measure noise: answers given again to the same dialogue, and gradings of an answer made
-- again. They count in no other figure; verdicts that count are in grades.

CREATE TABLE IF NOT EXISTS replicates (
    trial_id VARCHAR NOT NULL,            -- the conversation
    format VARCHAR NOT NULL,
    question_type VARCHAR NOT NULL,
    answer INTEGER NOT NULL,              -- 0: the answer of the run; from 1: answers given again
    grading INTEGER NOT NULL,             -- from 0; number 0 of answer 0 is the verdict in grades
    response VARCHAR,                     -- the answer; NULL if there is none to grade
    rule VARCHAR NOT NULL,                -- as in grades; empty if there is no answer to grade
    grader VARCHAR NOT NULL,              -- as in grades; empty if there is no answer to grade
    prompt_hash VARCHAR NOT NULL,         -- of the grader's prompts; empty for rules
    rule_version INTEGER NOT NULL,
    extracted VARCHAR,
    verdict VARCHAR NOT NULL,             -- or the reason of an invalid answer
    detail VARCHAR NOT NULL,
    call_ids VARCHAR[] NOT NULL,
    judged_at DOUBLE NOT NULL             -- seconds since 1970; the newest of a grading counts
);
