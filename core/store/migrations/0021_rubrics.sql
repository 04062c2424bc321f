-- Rubrics that people import or edit, each version a row, and the verdicts of judges on their criteria.

CREATE TABLE IF NOT EXISTS rubrics (
    name VARCHAR NOT NULL,
    rubric_hash VARCHAR NOT NULL,         -- the version: of all criteria with their points
    rubric JSON NOT NULL,                 -- title, source, licence, criteria for all cases, by specialty and by case
    made_by VARCHAR NOT NULL,             -- who saved this version; empty without a login
    made_at DOUBLE NOT NULL,              -- seconds since 1970
    line_id VARCHAR                       -- of its line in the journal of people
);

CREATE TABLE IF NOT EXISTS rubric_judgements (
    trial_id VARCHAR NOT NULL,            -- the conversation
    model VARCHAR NOT NULL,               -- the judge
    prompt_hash VARCHAR NOT NULL,         -- of the prompt pack under which it judged
    batch INTEGER NOT NULL,               -- most criteria in one request; 1: each criterion alone
    rubric VARCHAR NOT NULL,              -- name of the rubric, and its version at that time
    rubric_hash VARCHAR NOT NULL,
    criterion VARCHAR NOT NULL,           -- id
    criterion_hash VARCHAR NOT NULL,      -- of the wording that the judge read; points may change without a new verdict
    repeat INTEGER NOT NULL,              -- 0: the first judgement, which counts; others measure consistency
    verdict VARCHAR,                      -- met, not met, not applicable, cannot be judged; NULL: no readable reply
    voided BOOLEAN NOT NULL,              -- a quotation is in no message: the verdict does not count
    quotations JSON NOT NULL,             -- [{message, words, state: verified, repaired, unverified, given}]
    reason VARCHAR NOT NULL,              -- the judge's, in its words
    failure VARCHAR NOT NULL,             -- why there is no verdict; empty if there is one
    calls JSON NOT NULL,                  -- ids of its calls, in order
    judged_at DOUBLE NOT NULL             -- seconds since 1970
);
