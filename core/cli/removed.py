"""Commands of version 0.5 that this version does not have, and where a user finds them now. For one version only."""

REMOVED: dict[str, str] = {
    "reproduce": "run `python benchmarks/reproduce.py RELEASE` in a copy of the repository.",
    "report counterparts": "`report published` shows published figures next to yours.",
    "report leaderboard": "it is `report published --publication leaderboard`.",
    "report ranking": "it is `report accuracy --rank`.",
    "report before_after": "it is `report accuracy --by period`.",
    "report completeness": "it is `report ratings --part completeness`.",
}
"""Command (``NAME``, or ``GROUP NAME``) → a sentence that says what to use instead."""
