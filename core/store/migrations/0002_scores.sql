-- Scores of all measures in one table, cached tokens of calls, and items under a name that any framework may fill.

CREATE TABLE scores (
    trial_id VARCHAR NOT NULL,
    measure VARCHAR NOT NULL,             -- which measure read the trial
    measure_version VARCHAR NOT NULL,     -- of its rules and of what else it read; another version is measured anew
    name VARCHAR NOT NULL,                -- which of its scores
    value DOUBLE,                         -- NULL where the measure says nothing of this trial
    evidence JSON,                        -- what shows it: messages and the words quoted from them
    computed_at DOUBLE NOT NULL           -- seconds since 1970; the newest of a name counts
);

ALTER TABLE calls ADD COLUMN cached_tokens INTEGER;             -- of prompt_tokens; NULL where nobody counted them
ALTER TABLE consultation_items RENAME TO history_items;

-- Versions up to 0.1.1 read here that the database is newer than they are.
INSERT INTO meta VALUES (10, 0);
