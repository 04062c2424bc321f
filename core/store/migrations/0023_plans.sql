-- Plans of comparisons, locked before their runs; each lock is a row, and no row is ever replaced.

CREATE TABLE IF NOT EXISTS plans (
    name VARCHAR NOT NULL,
    plan_hash VARCHAR NOT NULL,           -- of all fields of the plan
    plan JSON NOT NULL,                   -- the fields
    reason VARCHAR NOT NULL,              -- why an earlier plan of this name was amended; empty for the first
    locked_by VARCHAR NOT NULL,           -- empty without a login
    locked_at DOUBLE NOT NULL,            -- seconds since 1970
    line_id VARCHAR                       -- of its line in the journal of people
);
