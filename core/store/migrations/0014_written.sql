-- What people write stands in a journal, line by line: each row names its line, and lines that were taken back stay out.
-- Rows of before get their ids and their lines when this is applied (core.store.written).

ALTER TABLE annotations ADD COLUMN IF NOT EXISTS line_id VARCHAR;
ALTER TABLE reviews ADD COLUMN IF NOT EXISTS line_id VARCHAR;
ALTER TABLE review_items ADD COLUMN IF NOT EXISTS line_id VARCHAR;
ALTER TABLE unblindings ADD COLUMN IF NOT EXISTS line_id VARCHAR;
ALTER TABLE run_labels ADD COLUMN IF NOT EXISTS line_id VARCHAR;
ALTER TABLE fact_sets ADD COLUMN IF NOT EXISTS line_id VARCHAR;
ALTER TABLE profiles ADD COLUMN IF NOT EXISTS line_id VARCHAR;
ALTER TABLE history_items ADD COLUMN IF NOT EXISTS line_id VARCHAR;

CREATE TABLE IF NOT EXISTS withdrawn (
    line_id VARCHAR NOT NULL,             -- of the line that was taken back
    withdrawn_by VARCHAR NOT NULL,        -- empty: whoever was at this machine
    reason VARCHAR NOT NULL,
    withdrawn_at DOUBLE NOT NULL          -- seconds since 1970
);
