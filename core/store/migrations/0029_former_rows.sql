-- The rows of tables that earlier versions had are judgements (core.store.former_rows); those tables are dropped.

SELECT 1;
