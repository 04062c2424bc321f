"""The rule by which an answer counts: every count of verdicts and every accuracy reads the verdict of this rule."""

from __future__ import annotations

from core.frameworks.base import frameworks

BY_STRICT = """CASE $mcq_rule WHEN 'mcq_loose' THEN false WHEN 'mcq_strict' THEN true
            ELSE question_type = 'mcq_many' OR list_contains($strictly, runs.protocol) END"""
"""Whether an answer counts by the second rule of its question type, on a row with ``runs`` and ``question_type``.

The second rule is the strict rule, or for many choices the grader's. Needs ``mcq_rule`` (``Selection.mcq_rule``), and
``strictly`` from the function of this name.
"""
COUNTED_RULE = f"""(CASE WHEN NOT starts_with(question_type, 'mcq') THEN question_type
            WHEN NOT ({BY_STRICT}) THEN 'mcq_loose'
            WHEN question_type = 'mcq_many' THEN question_type ELSE 'mcq_strict' END)"""
"""The rule by which an answer counts, on the same row."""


def strictly() -> list[str]:
    """Return the frameworks whose answers with choices count by the strict rule by default."""
    return [name for name, framework in frameworks().items() if framework.usual.mcq_rule == "mcq_strict"]
