-- What people, reviews, files and models say of a case in addition to its data set. A label is of the words that were
-- read: a case of the same key with another vignette, question or answer has none.

CREATE TABLE IF NOT EXISTS case_labels (
    case_key VARCHAR NOT NULL,
    text_hash VARCHAR NOT NULL,           -- core.case.Case.text_hash
    field VARCHAR NOT NULL,               -- specialty, single_diagnosis, answer_in_vignette, accepted or development
    value VARCHAR NOT NULL,               -- yes or no, a name, or accepted answers line by line; empty: none
    origin VARCHAR NOT NULL,              -- person, review, file or model
    made_by VARCHAR NOT NULL,             -- a person, the name of a review or file, or a model with its prompt's hash
    note VARCHAR NOT NULL,                -- the reason, or the quotation of a model
    made_at DOUBLE NOT NULL,              -- seconds since 1970
    line_id VARCHAR
);

-- The labels that count: the newest of people, reviews and files, else the newest of a model.
CREATE OR REPLACE VIEW case_labels_in_force AS
SELECT case_key, text_hash, field, value, origin, made_by, note, made_at
FROM case_labels
QUALIFY row_number() OVER (
    PARTITION BY case_key, text_hash, field ORDER BY origin = 'model', made_at DESC, rowid DESC) = 1;

-- Cases as figures group and filter them. What a role is told comes from the table of cases alone.
CREATE OR REPLACE VIEW labelled_cases AS
SELECT cases.case_key, cases.content_hash, cases.dataset, coalesce(nullif(labels.specialty, ''), cases.specialty) AS
    specialty, cases.vignette, cases.question, cases.choices, cases.answer, cases.asks_for,
    CASE labels.single_diagnosis WHEN 'yes' THEN true WHEN 'no' THEN false ELSE cases.single_diagnosis END
        AS single_diagnosis,
    coalesce(labels.development = 'yes', false) AS development,
    labels.specialty_by, cases.added_at
FROM cases LEFT JOIN (
    SELECT case_key, text_hash,
        any_value(value) FILTER (field = 'specialty') AS specialty,
        any_value(value) FILTER (field = 'single_diagnosis') AS single_diagnosis,
        any_value(value) FILTER (field = 'development') AS development,
        any_value(made_by) FILTER (field = 'specialty' AND origin = 'model' AND value <> '') AS specialty_by
    FROM case_labels_in_force GROUP BY case_key, text_hash
) AS labels ON labels.case_key = cases.case_key AND labels.text_hash =
    left(sha256(cases.vignette || chr(31) || cases.question || chr(31) || cases.answer), 16);

-- Verdicts that count further accepted answers have a condition of their own and never replace the others.
CREATE OR REPLACE VIEW newest_grades AS
SELECT trial_id, format, question_type, rule, grader, extracted, verdict, call_ids, graded_at, prompt_hash, rule_version
FROM grades WHERE NOT starts_with(coalesce(prompt_hash, ''), 'accepted-')
QUALIFY row_number() OVER (PARTITION BY trial_id, format, question_type, rule ORDER BY graded_at DESC, rowid DESC) = 1;
