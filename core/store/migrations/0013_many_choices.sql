-- What version 0.4 asked as mcq_many offered the right answers of a data set alone, and no longer has the name of the
-- preprint's question type, which offers every choice and which a grader judges.

UPDATE answers SET question_type = 'mcq_answers' WHERE question_type = 'mcq_many';
UPDATE grades SET question_type = 'mcq_answers' WHERE question_type = 'mcq_many';
UPDATE runs SET arms = list_transform(arms, lambda arm: regexp_replace(arm, ':mcq_many$', ':mcq_answers'))
WHERE contains(array_to_string(arms, ' '), ':mcq_many');
UPDATE variants SET step = replace(step, ':mcq_many', ':mcq_answers') WHERE contains(step, ':mcq_many');
UPDATE trials SET events = replace(events::VARCHAR, '"question_type":"mcq_many"', '"question_type":"mcq_answers"')
WHERE contains(events::VARCHAR, '"question_type":"mcq_many"');

DROP VIEW verdicts;
CREATE VIEW verdicts AS
SELECT answers.trial_id, answers.format, answers.question_type, rules.rule,
    CASE WHEN answers.status = 'invalid' THEN coalesce(answers.reason, 'ungradable')
         ELSE coalesce(newest.verdict, 'ungraded') END AS verdict,
    newest.grader, newest.extracted, newest.graded_at
FROM answers
JOIN (VALUES ('mcq', 'mcq_loose'), ('mcq', 'mcq_strict'), ('mcq_many', 'mcq_many'), ('mcq_many', 'mcq_loose'),
             ('mcq_answers', 'mcq_loose'), ('mcq_answers', 'mcq_strict'),
             ('frq', 'frq'), ('frq_top3', 'frq_top3')) AS rules (question_type, rule)
    USING (question_type)
LEFT JOIN newest_grades AS newest USING (trial_id, format, question_type, rule);
