-- Version 3: branches of conversations, what was changed at the bench, and what is known of cases beside them.

CREATE TABLE forks (
    trial_id VARCHAR PRIMARY KEY,
    parent_trial_id VARCHAR NOT NULL,
    turn INTEGER NOT NULL,                -- the first message that may differ from the parent's
    changes VARCHAR[] NOT NULL            -- in words
);

CREATE TABLE variants (
    variant_id VARCHAR PRIMARY KEY,
    trial_id VARCHAR NOT NULL,
    step VARCHAR NOT NULL,                -- which step of the trial was run again
    messages JSON NOT NULL,               -- as they were sent
    model VARCHAR NOT NULL,
    outcome JSON NOT NULL,                -- response, verdicts and calls
    note VARCHAR NOT NULL,
    made_at DOUBLE NOT NULL
);

CREATE TABLE fact_sets (
    case_key VARCHAR NOT NULL,
    content_hash VARCHAR NOT NULL,
    facts JSON NOT NULL,
    made_by VARCHAR NOT NULL,             -- a person, or the model that split the vignette
    made_at DOUBLE NOT NULL               -- the newest of a case counts
);

CREATE TABLE consultation_items (
    case_key VARCHAR NOT NULL,
    content_hash VARCHAR NOT NULL,
    items JSON NOT NULL,                  -- (key, value) pairs of the Consultation benchmark
    made_by VARCHAR NOT NULL,
    made_at DOUBLE NOT NULL               -- the newest of a case counts
);

CREATE TABLE history_measures (
    trial_id VARCHAR NOT NULL,
    items_hash VARCHAR NOT NULL,          -- of the items that the conversation was measured against
    measures JSON NOT NULL,
    measured_at DOUBLE NOT NULL
);

CREATE TABLE ledgers (
    trial_id VARCHAR NOT NULL,
    facts_hash VARCHAR NOT NULL,          -- of the facts it was marked against and of the rules' version
    summary JSON NOT NULL,                -- by topic: facts, asked, volunteered, never elicited, withheld; and the rest
    marked_at DOUBLE NOT NULL
);
