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
