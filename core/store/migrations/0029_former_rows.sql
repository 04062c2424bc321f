-- The rows of the former tables of opinions are judgements: core/store/former_rows.py moves them.
-- The rows of tables that earlier versions had are judgements (core.store.former_rows); those tables are dropped.

SELECT 1;
