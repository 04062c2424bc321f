"""Commands of version 0.5 that this version does not have, and where a user finds them now. For one version only."""

REMOVED: dict[str, str] = {
    "plan": "state the hypothesis with the run (`run --hypothesis TEXT --primary ARM --margin X`); `gate` compares.",
    "bundle rerun": "start the run again with `run` and the settings in the bundle's folder runs/.",
}
"""Command (``NAME``, or ``GROUP NAME``) → a sentence that says what to use instead."""
