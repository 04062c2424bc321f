"""Commands of version 0.5 that this version does not have, and where a user finds them now. For one version only."""

REMOVED: dict[str, str] = {
    "export flow": "`report flow --run RUN` prints the levels and losses as a table; no command draws them."
}
"""Command (``NAME``, or ``GROUP NAME``) → a sentence that says what to use instead."""
