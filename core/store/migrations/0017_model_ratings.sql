-- Answers of models to the forms of reviews, apart from those of people: a row for each item and question.

CREATE TABLE IF NOT EXISTS model_ratings (
    item VARCHAR NOT NULL,                -- as in review_items
    form VARCHAR NOT NULL,                -- name of the form
    question VARCHAR NOT NULL,            -- id of the question; empty where no reply could be read
    model VARCHAR NOT NULL,
    prompt_hash VARCHAR NOT NULL,         -- of the prompt and of the questions in it
    value VARCHAR,                        -- NULL where the answer is void or could not be read
    quotations JSON NOT NULL,             -- [{message, words, status}]; empty where there is no conversation
    reason VARCHAR NOT NULL,              -- the model's words on it
    failure VARCHAR NOT NULL,             -- why there is no value; empty where there is one
    call_ids VARCHAR[] NOT NULL,
    rated_at DOUBLE NOT NULL              -- seconds since 1970
);
