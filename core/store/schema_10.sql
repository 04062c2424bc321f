-- Version 10: scores of measures, one table for all of them.

CREATE TABLE IF NOT EXISTS scores (
    trial_id VARCHAR NOT NULL,
    measure VARCHAR NOT NULL,
    measure_version VARCHAR NOT NULL,     -- another one makes every trial missing again; older scores stay and are not read
    name VARCHAR NOT NULL,                -- of the score; empty in the one row that says that a trial was measured
    value DOUBLE,
    evidence JSON NOT NULL,               -- [{turn, words}]: what the score rests on
    computed_at DOUBLE NOT NULL           -- seconds since 1970
);
