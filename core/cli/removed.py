"""Commands of version 0.5 that this version does not have, and where a user finds them now. For one version only."""

REMOVED: dict[str, str] = {
    "experts workbook": "Experts answer vignettes on Judges, under Experts (`python -m core serve`).",
    "export hub": "Write the answers with `export results --out answers.parquet`, or `export eee` for Every Eval Ever.",
    "export report": "Use `export summary`.",
    "judge-facts": "Use `job facts`.",
    "judge-patients": "Use `job terms`.",
    "meld": "Use `job completions`.",
    "openings": "Use `job openings --cases …` to make them, and `data openings CASES` to read them.",
    "profile": "Use `job profiles --cases …` to make them, and `data profile CASE` to read one.",
    "regrade": "Use `job regrade --grader … --run RUN`.",
    "solve-prefixes": "Use `job prefixes`.",
    "export flow": "`report flow --run RUN` prints the levels and losses as a table; no command draws them.",
    "plan": "state the hypothesis with the run (`run --hypothesis TEXT --primary ARM --margin X`); `gate` compares.",
    "bundle rerun": "start the run again with `run` and the settings in the bundle's folder runs/.",
    "job closing": "`job regrade --of closing` grades the diagnoses that ended conversations.",
    "job continuations": "`report repeatability --part variance` divides the variance by cases, trials and gradings.",
    "job replicates": "`job regrade --again` grades stored answers again, and `run --trials` plays cases again; "
    "`report repeatability --part variance` divides the variance.",
    "job reread": "`job regrade --grader rules` reads choices again by the strict rule.",
    "job specialties": "`job judge specialty --by MODEL --data DATASET` asks a model for them.",
    "job urgency": "`job judge urgency_forced` asks the doctors.",
    "report noise": "`report repeatability --part variance` divides the variance by cases, trials and gradings, and "
    "`--part more_trials` says how far more trials narrow the interval.",
    "reproduce": "run `python benchmarks/reproduce.py RELEASE` in a copy of the repository.",
    "report counterparts": "`report published` shows published figures next to yours.",
    "report leaderboard": "it is `report published --publication leaderboard`.",
    "report ranking": "it is `report accuracy --rank`.",
    "report before_after": "it is `report accuracy --by period`.",
    "report completeness": "it is `report ratings --part completeness`.",
}
"""Command (``NAME``, or ``GROUP NAME``) → a sentence that says what to use instead."""
