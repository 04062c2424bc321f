-- Version 6: what simulated patients did wrong, pictures of cases, and the prompts under which a grader judged.

CREATE TABLE patient_marks (
    trial_id VARCHAR NOT NULL,
    rules VARCHAR NOT NULL,               -- version of the rules that marked it
    replies INTEGER NOT NULL,             -- what the patient said in the conversation
    marks JSON NOT NULL,                  -- [{turn, kind, words, start, end, detail}]
    marked_at DOUBLE NOT NULL
);

ALTER TABLE cases ADD COLUMN images JSON;                       -- NULL where the case has none

-- A view keeps the columns that its table had: both are made anew with the table's new one.
DROP VIEW verdicts;
DROP VIEW newest_grades;
ALTER TABLE grades ADD COLUMN prompt_hash VARCHAR DEFAULT '';   -- of the grader's prompts; empty where the run's own count

CREATE VIEW newest_grades AS
SELECT * FROM grades
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
