-- The recomputed tables of a publication, which take seconds to minutes to compute; one row for each release.

CREATE TABLE IF NOT EXISTS reproductions (
    case_set VARCHAR PRIMARY KEY,
    digest VARCHAR NOT NULL,              -- of the files of the release
    program VARCHAR NOT NULL,             -- the version that computed it
    result JSON NOT NULL,
    computed_at DOUBLE NOT NULL           -- seconds since 1970
);
