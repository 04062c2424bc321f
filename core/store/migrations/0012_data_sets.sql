-- The whole data set that a run's cases are all or a part of, as it was when the run began; '' and 0 if not recorded.

ALTER TABLE runs ADD COLUMN data_set_hash VARCHAR DEFAULT '';
ALTER TABLE runs ADD COLUMN data_set_cases BIGINT DEFAULT 0;
