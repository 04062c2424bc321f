-- Version 7: what a model found in patients' replies, beside the marks of the rules.

CREATE TABLE patient_judgements (
    trial_id VARCHAR NOT NULL,
    model VARCHAR NOT NULL,
    prompt_hash VARCHAR NOT NULL,         -- of the prompt pack under which it judged
    terms JSON,                           -- [{turn, words, start, end}]; NULL where the judging failed
    dropped INTEGER NOT NULL,             -- terms that it named and that are not in the reply
    failure VARCHAR NOT NULL,             -- why there are no terms; empty where there are
    calls JSON NOT NULL,                  -- the records of its calls, in order
    tokens INTEGER NOT NULL,
    cost_usd DOUBLE,                      -- NULL where a price is not known
    judged_at DOUBLE NOT NULL             -- seconds since 1970
);
