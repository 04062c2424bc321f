-- Version 5: reviews by experts, and completions of vignettes that tell whether a model has seen them.

CREATE TABLE reviews (
    review_id VARCHAR PRIMARY KEY,
    name VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,                -- conversations, answers or baseline
    plan JSON NOT NULL,                   -- what was asked for: how items were drawn, the seed, annotators, the share of two
    created_at DOUBLE NOT NULL
);

CREATE TABLE review_items (
    review_id VARCHAR NOT NULL,
    item VARCHAR NOT NULL,                -- a trial, an answer of a trial, or a case: see core.store.review_items
    number INTEGER NOT NULL,              -- from 1, before each annotator's own shuffle
    annotators VARCHAR[] NOT NULL         -- who is to judge it; a third is asked only where two of them differ
);

CREATE TABLE unblindings (
    review_id VARCHAR NOT NULL,
    unblinded_by VARCHAR NOT NULL,
    reason VARCHAR NOT NULL,              -- why before all was answered; empty where it was
    unblinded_at DOUBLE NOT NULL          -- the first of a review counts
);

-- What was said of an item besides the value: kept with every row of the history.
ALTER TABLE annotations ADD COLUMN review_id VARCHAR DEFAULT '';
ALTER TABLE annotations ADD COLUMN reason VARCHAR DEFAULT '';   -- why an earlier answer was changed
ALTER TABLE annotations ADD COLUMN spans JSON;                  -- highlighted words: [{turn, start, end, text}]

CREATE TABLE completions (
    case_key VARCHAR NOT NULL,
    content_hash VARCHAR NOT NULL,
    model VARCHAR NOT NULL,
    prompt_hash VARCHAR NOT NULL,
    first_half VARCHAR NOT NULL,
    second_half VARCHAR NOT NULL,
    completion VARCHAR,                   -- NULL where the provider failed
    failure VARCHAR NOT NULL,             -- in words; empty where there is a completion
    similarity DOUBLE,                    -- 1 − Levenshtein distance over the longer of both, 0 to 1
    request JSON NOT NULL,
    tokens BIGINT NOT NULL,
    cost_usd DOUBLE,
    made_at DOUBLE NOT NULL
);
