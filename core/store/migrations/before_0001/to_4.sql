-- Version 4: AutoMedic: profiles made of cases, what broke the tag protocol, and the patient's rating of the doctor.

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
