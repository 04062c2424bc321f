-- Version 9: what a model says that patients withheld and invented, by conversation; rules on words decide neither.

CREATE TABLE fact_judgements (
    trial_id VARCHAR NOT NULL,
    facts_hash VARCHAR NOT NULL,          -- of the case's content and of the list saved for it, which it was judged against
    model VARCHAR NOT NULL,
    prompt_hash VARCHAR NOT NULL,         -- of the prompt pack under which it judged
    verdicts JSON,                        -- [{kind, turn, words, fact, fact_text}]; NULL where the judging failed
    dropped INTEGER NOT NULL,             -- verdicts whose quotation, fact or message is not there
    failure VARCHAR NOT NULL,             -- why there are no verdicts; empty where there are
    calls JSON NOT NULL,                  -- the records of its calls, in order
    tokens BIGINT NOT NULL,
    cost_usd DOUBLE,                      -- NULL where a price is not known
    judged_at DOUBLE NOT NULL             -- seconds since 1970
);
