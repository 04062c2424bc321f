-- Version 8: a model's reasoning beside its reply, the version of the rule that read a choice, what a question asks for.

ALTER TABLE calls ADD COLUMN reasoning VARCHAR;                 -- what the model thought; never spoken, judged or sent on
ALTER TABLE calls ADD COLUMN reasoning_tokens BIGINT;           -- of completion_tokens; NULL where nobody counted them
ALTER TABLE cases ADD COLUMN asks_for VARCHAR;                  -- diagnosis, test, treatment …; NULL where nobody has looked

-- A view keeps the columns that its table had: both are made anew with the table's new one.
DROP VIEW verdicts;
DROP VIEW newest_grades;
ALTER TABLE grades ADD COLUMN rule_version INTEGER DEFAULT 1;   -- of the rule by hand that judged; 1 for a model's verdicts

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
