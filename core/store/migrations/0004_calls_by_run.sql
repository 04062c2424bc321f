-- Which run or job paid for a call, so that a trial that was begun and not finished counts in its run; and the calls of
-- judgements once, among all others, where judgements name them by their ids.

ALTER TABLE calls ADD COLUMN run_id VARCHAR;    -- NULL for a trial that was deleted with its run before this was kept

UPDATE calls SET run_id = trials.run_id FROM trials WHERE trials.trial_id = calls.trial_id;

-- of an unfinished trial: its id is made of its run, case and number
UPDATE calls SET run_id = planned.run_id
FROM (
    SELECT run_id, left(sha256(concat_ws(chr(10), run_id, case_key, number)), 20) AS trial_id
    FROM (SELECT run_id, case_key, unnest(range(trials)) AS number FROM runs JOIN run_cases USING (run_id))
) AS planned
WHERE calls.run_id IS NULL AND planned.trial_id = calls.trial_id;

-- jobs that are about no trial list their calls under their own name
UPDATE calls SET run_id = trial_id
WHERE run_id IS NULL AND regexp_full_match(trial_id, 'judging|variants|(judging|profiles|completions)-[0-9a-f]{16}');

INSERT INTO calls BY NAME
WITH held AS (
    SELECT unnest(from_json(calls, '[{
        "call_id": "VARCHAR", "role": "VARCHAR", "purpose": "VARCHAR", "model": "VARCHAR", "request": "JSON",
        "response": "VARCHAR", "reasoning": "VARCHAR", "finish_reason": "VARCHAR", "served_by": "VARCHAR",
        "prompt_tokens": "BIGINT", "completion_tokens": "BIGINT", "reasoning_tokens": "BIGINT",
        "cached_tokens": "INTEGER", "tokens_estimated": "BOOLEAN", "latency_s": "DOUBLE", "first_token_s": "DOUBLE",
        "attempts": "INTEGER", "cost_usd": "DOUBLE", "error": "VARCHAR", "parts": "JSON"}]'), max_depth := 2)
    FROM (SELECT calls FROM fact_judgements UNION ALL SELECT calls FROM patient_judgements)
)
SELECT DISTINCT ON (call_id) 'judging' AS run_id, 'judging' AS trial_id, 0 AS position, held.*
FROM held ANTI JOIN calls USING (call_id);

UPDATE fact_judgements SET calls = to_json(json_extract_string(calls, '$[*].call_id'));
UPDATE patient_judgements SET calls = to_json(json_extract_string(calls, '$[*].call_id'));
