-- The tables of version 0.4, the oldest that the program opens.

-- Versions up to 0.1.1 looked here for how new a database is.
CREATE TABLE meta (
    schema_version INTEGER PRIMARY KEY,
    applied_at DOUBLE NOT NULL
);
INSERT INTO meta VALUES (9, 0), (10, 0);

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
    images JSON,                          -- NULL where the case has none
    asks_for VARCHAR,                     -- diagnosis, test, treatment …; NULL where nobody has looked
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
    graded_at DOUBLE NOT NULL,
    prompt_hash VARCHAR DEFAULT '',       -- of the grader's prompts; empty where the run's own count
    rule_version INTEGER DEFAULT 1        -- of the rule by hand that judged; 1 for a model's verdicts
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
    error VARCHAR,
    reasoning VARCHAR,                    -- what the model thought; never spoken, judged or sent on
    reasoning_tokens BIGINT,              -- of completion_tokens; NULL where nobody counted them
    cached_tokens INTEGER,                -- of prompt_tokens; NULL where nobody counted them
    parts JSON,                           -- prompts, values, places in the messages; NULL or [] where none were recorded
    run_id VARCHAR                        -- which run or job paid; NULL for a trial deleted before this was kept
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
    annotated_at DOUBLE NOT NULL,
    review_id VARCHAR DEFAULT '',
    reason VARCHAR DEFAULT '',            -- why an earlier answer was changed
    spans JSON                            -- highlighted words: [{turn, start, end, text}]
);

CREATE SEQUENCE journal_order;
CREATE TABLE journal_positions (
    ordinal BIGINT NOT NULL DEFAULT nextval('journal_order'),
    path VARCHAR NOT NULL,
    position BIGINT NOT NULL,             -- bytes of the journal that are in the database
    folded_at DOUBLE NOT NULL
);

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

CREATE TABLE forks (
    trial_id VARCHAR PRIMARY KEY,
    parent_trial_id VARCHAR NOT NULL,
    turn INTEGER NOT NULL,                -- the first message that may differ from the parent's
    changes VARCHAR[] NOT NULL            -- in words
);

CREATE TABLE variants (
    variant_id VARCHAR PRIMARY KEY,
    trial_id VARCHAR NOT NULL,
    step VARCHAR NOT NULL,                -- which step of the trial was run again
    messages JSON NOT NULL,               -- as they were sent
    model VARCHAR NOT NULL,
    outcome JSON NOT NULL,                -- response, verdicts and calls
    note VARCHAR NOT NULL,
    made_at DOUBLE NOT NULL
);

CREATE TABLE fact_sets (
    case_key VARCHAR NOT NULL,
    content_hash VARCHAR NOT NULL,
    facts JSON NOT NULL,
    made_by VARCHAR NOT NULL,             -- a person, or the model that split the vignette
    made_at DOUBLE NOT NULL               -- the newest of a case counts
);

CREATE TABLE history_items (
    case_key VARCHAR NOT NULL,
    content_hash VARCHAR NOT NULL,
    items JSON NOT NULL,                  -- (key, value) pairs of the Consultation benchmark
    made_by VARCHAR NOT NULL,
    made_at DOUBLE NOT NULL               -- the newest of a case counts
);

CREATE TABLE profiles (
    case_key VARCHAR NOT NULL,
    content_hash VARCHAR NOT NULL,        -- of the case that the profile was made of
    version INTEGER NOT NULL,             -- from 1; the newest of a case counts
    suitable BOOLEAN NOT NULL,            -- whether the case can become a patient
    reason VARCHAR,                       -- why it cannot
    note VARCHAR NOT NULL,                -- in words
    speaker VARCHAR NOT NULL,             -- patient or caregiver
    profile JSON,                         -- NULL where the case is not suitable
    made_by VARCHAR NOT NULL,
    made_at DOUBLE NOT NULL
);

CREATE TABLE misuses (
    trial_id VARCHAR NOT NULL,
    turn INTEGER NOT NULL,
    kinds VARCHAR[] NOT NULL,
    detail VARCHAR NOT NULL
);

CREATE TABLE ratings (
    trial_id VARCHAR NOT NULL,
    quality VARCHAR NOT NULL,
    rater VARCHAR NOT NULL,
    rating INTEGER,                       -- 1 (worst) to 5; NULL where none could be read
    words VARCHAR NOT NULL,
    call_id VARCHAR
);

CREATE TABLE reviews (
    review_id VARCHAR PRIMARY KEY,
    name VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,                -- conversations, answers or baseline
    plan JSON NOT NULL,                   -- what was asked for: how items were drawn, the seed, annotators, the share of two
    created_at DOUBLE NOT NULL
);

CREATE TABLE review_items (
    review_id VARCHAR NOT NULL,
    item VARCHAR NOT NULL,                -- a trial, an answer of a trial, or a case: see core.store.review_records
    number INTEGER NOT NULL,              -- from 1, before each annotator's own shuffle
    annotators VARCHAR[] NOT NULL         -- who is to judge it; a third is asked only where two of them differ
);

CREATE TABLE unblindings (
    review_id VARCHAR NOT NULL,
    unblinded_by VARCHAR NOT NULL,
    reason VARCHAR NOT NULL,              -- why before all was answered; empty where it was
    unblinded_at DOUBLE NOT NULL          -- the first of a review counts
);

CREATE TABLE completions (
    case_key VARCHAR NOT NULL,
    content_hash VARCHAR NOT NULL,
    model VARCHAR NOT NULL,
    prompt_hash VARCHAR NOT NULL,
    first_half VARCHAR NOT NULL,
    second_half VARCHAR NOT NULL,
    completion VARCHAR,                   -- NULL where the provider failed
    failure VARCHAR NOT NULL,             -- in words; empty where there is a completion
    similarity DOUBLE,                    -- 1 − Levenshtein distance over the longer of both, 0 to 1
    request JSON NOT NULL,
    tokens BIGINT NOT NULL,
    cost_usd DOUBLE,
    made_at DOUBLE NOT NULL
);

CREATE TABLE patient_judgements (
    trial_id VARCHAR NOT NULL,
    model VARCHAR NOT NULL,
    prompt_hash VARCHAR NOT NULL,         -- of the prompt pack under which it judged
    terms JSON,                           -- [{turn, words, start, end}]; NULL where the judging failed
    dropped INTEGER NOT NULL,             -- terms that it named and that are not in the reply
    failure VARCHAR NOT NULL,             -- why there are no terms; empty where there are
    calls JSON NOT NULL,                  -- ids of its calls, in order
    tokens INTEGER NOT NULL,
    cost_usd DOUBLE,                      -- NULL where a price is not known
    judged_at DOUBLE NOT NULL             -- seconds since 1970
);

CREATE TABLE fact_judgements (
    trial_id VARCHAR NOT NULL,
    facts_hash VARCHAR NOT NULL,          -- of the case's content and of the list saved for it, which it was judged against
    model VARCHAR NOT NULL,
    prompt_hash VARCHAR NOT NULL,         -- of the prompt pack under which it judged
    verdicts JSON,                        -- [{kind, turn, words, fact, fact_text}]; NULL where the judging failed
    dropped INTEGER NOT NULL,             -- verdicts whose quotation, fact or message is not there
    failure VARCHAR NOT NULL,             -- why there are no verdicts; empty where there are
    calls JSON NOT NULL,                  -- ids of its calls, in order
    tokens BIGINT NOT NULL,
    cost_usd DOUBLE,                      -- NULL where a price is not known
    judged_at DOUBLE NOT NULL             -- seconds since 1970
);

CREATE TABLE scores (
    trial_id VARCHAR NOT NULL,
    measure VARCHAR NOT NULL,             -- which measure read the trial
    measure_version VARCHAR NOT NULL,     -- of its rules and of what else it read; another version is measured anew
    name VARCHAR NOT NULL,                -- which of its scores
    value DOUBLE,                         -- NULL where the measure says nothing of this trial
    evidence JSON,                        -- what shows it: messages and the words quoted from them
    computed_at DOUBLE NOT NULL,          -- seconds since 1970; the newest of a name counts
    against VARCHAR,                      -- the case's content, and a hash of the list that it was measured by
    series DOUBLE[]                       -- the way to the value, point by point; NULL for most
);

-- What a solver answered who was shown the beginning of a stored conversation only.
CREATE TABLE prefix_answers (
    trial_id VARCHAR NOT NULL,
    content_hash VARCHAR NOT NULL,        -- of the case whose question was asked
    question_type VARCHAR NOT NULL,       -- mcq or frq
    share INTEGER NOT NULL,               -- per cent of the dialogue that had passed
    messages INTEGER NOT NULL,            -- how many of its messages the solver was shown, the first ones
    solver VARCHAR NOT NULL,
    prompt_hash VARCHAR NOT NULL,         -- of the solver's prompt; empty for rules
    grader VARCHAR NOT NULL,              -- of a free response; empty for choices, which are read by the present rules
    grader_prompts VARCHAR NOT NULL,      -- hash of what the grader was told; empty for rules and for choices
    response VARCHAR,                     -- NULL where there is none to grade
    verdict VARCHAR,                      -- the grader's, or why there is none to grade; NULL for choices
    extracted VARCHAR,                    -- the grader's name for the response
    detail VARCHAR NOT NULL,              -- what broke, in words
    call_ids VARCHAR[] NOT NULL,
    answered_at DOUBLE NOT NULL           -- seconds since 1970; of one grader's the newest that a provider did not break counts
);

-- What people call a run, the tags they put it under, and what they note of it; the newest row of a run counts.
CREATE TABLE run_labels (
    run_id VARCHAR NOT NULL,
    name VARCHAR NOT NULL,          -- empty: by doctor and case set
    tags VARCHAR[] NOT NULL,
    note VARCHAR NOT NULL,
    labelled_at DOUBLE NOT NULL,    -- seconds since 1970
    PRIMARY KEY (run_id, labelled_at)
);

-- The newest grade of a rule counts; of two at the same moment, the one that came in later.
-- The views name their columns, so that the tables behind them may get more.
CREATE VIEW newest_grades AS
SELECT trial_id, format, question_type, rule, grader, extracted, verdict, call_ids, graded_at, prompt_hash, rule_version
FROM grades
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
