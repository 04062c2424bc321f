-- Version 2: what was imported of a release of other people's results, so that an import can be repeated.

CREATE TABLE release_files (
    run_id VARCHAR NOT NULL,
    path VARCHAR NOT NULL,                -- inside the release
    case_key VARCHAR NOT NULL,
    digest VARCHAR NOT NULL,              -- of the file's bytes and of the case it belongs to
    prompts VARCHAR[] NOT NULL,           -- hash of the doctor's prompt in each of its conversations
    fault VARCHAR,                        -- why nothing of it was taken; NULL where all was
    imported_at DOUBLE NOT NULL
);

CREATE TABLE release_prompts (
    prompt_hash VARCHAR PRIMARY KEY,
    template VARCHAR NOT NULL             -- the prompt with its specialty factored out
);

CREATE TABLE release_documents (
    path VARCHAR NOT NULL,                -- inside the release, for example the experts' annotations
    digest VARCHAR NOT NULL,
    content BLOB NOT NULL,                -- as it came
    imported_at DOUBLE NOT NULL
);
