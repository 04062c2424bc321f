-- What people call a run, the tags they put it under, and what they note of it; the newest row of a run counts.

CREATE TABLE run_labels (
    run_id VARCHAR NOT NULL,
    name VARCHAR NOT NULL,          -- empty: by doctor and case set
    tags VARCHAR[] NOT NULL,
    note VARCHAR NOT NULL,
    labelled_at DOUBLE NOT NULL,    -- seconds since 1970
    PRIMARY KEY (run_id, labelled_at)
);
