"""Commands of version 0.5 that this version does not have, and where a user finds them now. For one version only."""

REMOVED: dict[str, str] = {
    "export hub": "Write the answers with `export results --out answers.parquet`, or `export eee` for Every Eval Ever.",
    "export report": "Use `export summary`.",
}
"""Command (``NAME``, or ``GROUP NAME``) → a sentence that says what to use instead."""
