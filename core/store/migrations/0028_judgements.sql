-- The answers of judges (persons, models, rules) to the questions of forms about stored items.

CREATE TABLE IF NOT EXISTS judgements (
    trial_id VARCHAR NOT NULL,            -- the first trial of the item; empty if it is not about a trial
    subject VARCHAR NOT NULL,             -- the item, such as talk:TRIAL or case:CASE
    form VARCHAR NOT NULL,
    question VARCHAR NOT NULL,            -- its id in the form
    against VARCHAR NOT NULL,             -- hash of what else the answer depends on, such as the wording
    judge VARCHAR NOT NULL,               -- the person, the model or the rule
    judge_kind VARCHAR NOT NULL,          -- person, model, rule
    prompt_hash VARCHAR NOT NULL,         -- of the prompts and the form; empty for people
    together INTEGER NOT NULL,            -- the most questions in one request; 0: all of an item
    repeat INTEGER NOT NULL,              -- counts from 1
    value VARCHAR,                        -- the answer; NULL: none, see failure
    void BOOLEAN NOT NULL,                -- the quotations are no evidence, so that the answer does not count
    quotations JSON NOT NULL,             -- [{message, words, state: verified, repaired, unverified, given, start, end, comment}]
    reason VARCHAR NOT NULL,              -- the judge's
    comment VARCHAR NOT NULL,             -- a person's
    failure VARCHAR NOT NULL,             -- what the provider or the reader reported; empty if there is an answer
    calls VARCHAR[] NOT NULL,
    review_id VARCHAR NOT NULL,           -- empty outside reviews
    seconds DOUBLE,                       -- from opening the item to saving the answer
    served_by VARCHAR NOT NULL,           -- as the provider called the model
    judged_at DOUBLE NOT NULL             -- seconds since 1970; of equal questions to a judge the newest with a value counts
);
