-- Under which names providers served the models of a run: each write adds the calls that it brought (core.store.tallies).

CREATE TABLE served (
    run_id VARCHAR NOT NULL,
    role VARCHAR NOT NULL,
    model VARCHAR NOT NULL,               -- as it was asked for
    served_by VARCHAR NOT NULL,           -- as the provider called it; calls without a name are not counted
    n BIGINT NOT NULL                     -- calls
);

INSERT INTO served BY NAME
SELECT run_id, role, model, served_by, count(*) AS n FROM calls
WHERE run_id IS NOT NULL AND served_by <> '' GROUP BY ALL;
