-- Answers of judges in tables of their own become rows of judgements (core.store.former_rows).
SELECT 1;
