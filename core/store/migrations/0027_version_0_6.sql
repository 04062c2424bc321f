-- Tables of capabilities that version 0.6 does not have any more. Their journal lines stay, and are skipped.
DROP TABLE IF EXISTS plans;
DROP TABLE IF EXISTS reproductions;
DROP TABLE IF EXISTS replicates;
DROP TABLE IF EXISTS continuations;

-- What a run is to show, as its journal states it before the first call: text, primary outcome and margin as JSON.
ALTER TABLE runs ADD COLUMN IF NOT EXISTS hypothesis VARCHAR;
