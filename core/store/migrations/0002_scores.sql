-- Scores of all measures in one table, cached tokens of calls, and items under a name that any framework may fill.

CREATE TABLE scores (
    trial_id VARCHAR NOT NULL,
    measure VARCHAR NOT NULL,             -- which measure read the trial
    measure_version VARCHAR NOT NULL,     -- of its rules and of what else it read; another version is measured anew
    name VARCHAR NOT NULL,                -- which of its scores
    value DOUBLE,                         -- NULL where the measure says nothing of this trial
    evidence JSON,                        -- what shows it: messages and the words quoted from them
    computed_at DOUBLE NOT NULL           -- seconds since 1970; the newest of a name counts
);

ALTER TABLE calls ADD COLUMN cached_tokens INTEGER;             -- of prompt_tokens; NULL where nobody counted them
ALTER TABLE consultation_items RENAME TO history_items;

-- Versions up to 0.1.1 read here that the database is newer than they are.
INSERT INTO meta VALUES (10, 0);

-- The views name their columns, so that the tables behind them may get more.
DROP VIEW verdicts;
DROP VIEW newest_grades;

CREATE VIEW newest_grades AS
SELECT trial_id, format, question_type, rule, grader, extracted, verdict, call_ids, graded_at, prompt_hash, rule_version
FROM grades
QUALIFY row_number() OVER (PARTITION BY trial_id, format, question_type, rule ORDER BY graded_at DESC, rowid DESC) = 1;

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
