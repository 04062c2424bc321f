-- What people write into evaluation reports: the parts of a report that no journal contains.

CREATE TABLE IF NOT EXISTS report_fields (
    runs VARCHAR[] NOT NULL,              -- ids of the runs of the report, in alphabetical order
    field VARCHAR NOT NULL,               -- the same for all guidelines that ask for it, such as funding
    text VARCHAR NOT NULL,                -- empty: withdrawn
    applies BOOLEAN NOT NULL,             -- false: the field does not apply to these runs, and the text says why
    made_by VARCHAR NOT NULL,             -- empty without a login
    made_at DOUBLE NOT NULL,              -- seconds since 1970; the newest text of a field counts
    line_id VARCHAR                       -- of its line in the journal of people
);
