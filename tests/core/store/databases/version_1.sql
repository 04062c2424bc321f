-- The first shape of the database, which later ones were made of by steps.

CREATE TABLE meta (
    schema_version INTEGER PRIMARY KEY,
    applied_at DOUBLE NOT NULL
);

CREATE TABLE runs (
    run_id VARCHAR PRIMARY KEY,
    fingerprint VARCHAR NOT NULL,
    protocol VARCHAR NOT NULL,
    doctor VARCHAR NOT NULL,
    patient VARCHAR NOT NULL,
    grader VARCHAR NOT NULL,
    summariser VARCHAR NOT NULL,
    prompt_pack VARCHAR NOT NULL,
    prompt_hash VARCHAR NOT NULL,
    case_set VARCHAR NOT NULL,
    case_set_hash VARCHAR NOT NULL,
    arms VARCHAR[] NOT NULL,              -- 'format:question_type'
    trials INTEGER NOT NULL,              -- repetitions of each case
    seed BIGINT NOT NULL,
    settings JSON NOT NULL,
    code_version VARCHAR NOT NULL,
    source VARCHAR NOT NULL,              -- local, live, release or replay
    created_at DOUBLE NOT NULL
);

CREATE TABLE cases (
    case_key VARCHAR NOT NULL,
    content_hash VARCHAR NOT NULL,        -- a case that was changed is another row
    dataset VARCHAR NOT NULL,
    specialty VARCHAR NOT NULL,
    vignette VARCHAR NOT NULL,
    question VARCHAR NOT NULL,
    choices VARCHAR[] NOT NULL,
    answer VARCHAR NOT NULL,
    synonyms VARCHAR[] NOT NULL,
    supertypes VARCHAR[] NOT NULL,
    subtypes VARCHAR[] NOT NULL,
    single_diagnosis BOOLEAN,
    difficulty VARCHAR,
    age DOUBLE,                           -- years
    sex VARCHAR,
    speaker VARCHAR NOT NULL,
    profile JSON,
    source VARCHAR NOT NULL,
    licence VARCHAR NOT NULL,
    added_at DOUBLE NOT NULL,
    PRIMARY KEY (case_key, content_hash)
);

CREATE TABLE run_cases (
    run_id VARCHAR NOT NULL,
    case_key VARCHAR NOT NULL,
    content_hash VARCHAR NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (run_id, case_key)
);

CREATE TABLE trials (
    trial_id VARCHAR PRIMARY KEY,
    run_id VARCHAR NOT NULL,
    case_key VARCHAR NOT NULL,
    content_hash VARCHAR,                 -- as the run held the case; NULL where its journal does not bring the cases
    trial INTEGER NOT NULL,
    seed BIGINT NOT NULL,
    status VARCHAR NOT NULL,              -- finished, or failed where the trial broke off
    end_reason VARCHAR,                   -- NULL where there was no conversation
    end_detail VARCHAR,
    doctor_turns INTEGER,                 -- without the greeting
    summary VARCHAR,
    failed_where VARCHAR,                 -- of the first thing that broke
    failure VARCHAR,
    failure_message VARCHAR,
    started_at DOUBLE,
    finished_at DOUBLE NOT NULL,
    events JSON NOT NULL                  -- the stream as it happened; calls are named by call_id and kept in calls
);

CREATE TABLE utterances (
    trial_id VARCHAR NOT NULL,
    position INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    role VARCHAR NOT NULL,
    text VARCHAR NOT NULL,
    call_id VARCHAR
);

CREATE TABLE answers (
    trial_id VARCHAR NOT NULL,
    format VARCHAR NOT NULL,
    question_type VARCHAR NOT NULL,
    response VARCHAR,
    status VARCHAR NOT NULL,              -- answered or invalid
    reason VARCHAR,                       -- verdict of an invalid answer
    detail VARCHAR NOT NULL,
    call_id VARCHAR
);

CREATE TABLE grades (
    trial_id VARCHAR NOT NULL,
    format VARCHAR NOT NULL,
    question_type VARCHAR NOT NULL,
    rule VARCHAR NOT NULL,
    grader VARCHAR NOT NULL,
    extracted VARCHAR,
    verdict VARCHAR NOT NULL,
    call_ids VARCHAR[] NOT NULL,
    graded_at DOUBLE NOT NULL
);

CREATE TABLE calls (
    trial_id VARCHAR NOT NULL,
    position INTEGER NOT NULL,
    call_id VARCHAR NOT NULL,
    role VARCHAR NOT NULL,
    purpose VARCHAR NOT NULL,
    model VARCHAR NOT NULL,
    request JSON NOT NULL,
    response VARCHAR,
    finish_reason VARCHAR,
    served_by VARCHAR,
    prompt_tokens BIGINT NOT NULL,
    completion_tokens BIGINT NOT NULL,
    tokens_estimated BOOLEAN NOT NULL,
    latency_s DOUBLE NOT NULL,
    first_token_s DOUBLE,
    attempts INTEGER NOT NULL,
    cost_usd DOUBLE,
    error VARCHAR
);

CREATE TABLE probes (
    trial_id VARCHAR NOT NULL,
    turn INTEGER NOT NULL,
    rank INTEGER NOT NULL,                -- 1 is the likeliest
    diagnosis VARCHAR NOT NULL,
    probability DOUBLE NOT NULL
);

CREATE TABLE annotations (
    item VARCHAR NOT NULL,
    annotator VARCHAR NOT NULL,
    question VARCHAR NOT NULL,
    value VARCHAR,
    comment VARCHAR NOT NULL,
    annotated_at DOUBLE NOT NULL
);

CREATE SEQUENCE journal_order;
CREATE TABLE journal_positions (
    ordinal BIGINT NOT NULL DEFAULT nextval('journal_order'),
    path VARCHAR NOT NULL,
    position BIGINT NOT NULL,             -- bytes of the journal that are in the database
    folded_at DOUBLE NOT NULL
);

-- The newest grade of a rule counts; of two at the same moment, the one that came in later.
CREATE VIEW newest_grades AS
SELECT * FROM grades
QUALIFY row_number() OVER (PARTITION BY trial_id, format, question_type, rule ORDER BY graded_at DESC, rowid DESC) = 1;

-- One row for each answer and each rule that applies to it; 'ungraded' where no grader has spoken yet.
CREATE VIEW verdicts AS
SELECT answers.trial_id, answers.format, answers.question_type, rules.rule,
    CASE WHEN answers.status = 'invalid' THEN coalesce(answers.reason, 'ungradable')
         ELSE coalesce(newest.verdict, 'ungraded') END AS verdict,
    newest.grader, newest.extracted, newest.graded_at
FROM answers
JOIN (VALUES ('mcq', 'mcq_loose'), ('mcq', 'mcq_strict'), ('mcq_many', 'mcq_loose'), ('mcq_many', 'mcq_strict'),
             ('frq', 'frq'), ('frq_top3', 'frq_top3')) AS rules (question_type, rule)
    USING (question_type)
LEFT JOIN newest_grades AS newest USING (trial_id, format, question_type, rule);
