"""Commands of version 0.5 that this version does not have, and where a user finds them now. For one version only."""

REMOVED: dict[str, str] = {
    "job closing": "`job regrade --of closing` grades the diagnoses that ended conversations.",
    "job continuations": "`report repeatability --part variance` divides the variance by cases, trials and gradings.",
    "job replicates": "`job regrade --again` grades stored answers again, and `run --trials` plays cases again; "
    "`report repeatability --part variance` divides the variance.",
    "job reread": "`job regrade --grader rules` reads choices again by the strict rule.",
    "report noise": "`report repeatability --part variance` divides the variance by cases, trials and gradings, and "
    "`--part more_trials` says how far more trials narrow the interval.",
}
"""Command (``NAME``, or ``GROUP NAME``) → a sentence that says what to use instead."""
