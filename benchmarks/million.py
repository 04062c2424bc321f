"""A database as large as a study gets: 125,000 conversations with 1,000,000 answers, written in a minute or two.

It is made of the sample study (``core.store.sample``): its conversations of the reference cast are repeated under new
cases, doctors and trials, each with different words, so that nothing compresses better than real data. Verdicts are
drawn from the doctor's skill, the difficulty of the case and of the format. Scores of measures are those of the
repeated conversation. Two further doctors play AutoMedic and one plays Consultation.

    .venv/bin/python benchmarks/million.py PATH [--conversations 125000]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import orjson
from common import sized

from core.datasets.library import library
from core.frameworks.craftmd import PAPER_ARMS
from core.measures.measuring import measure_trials
from core.measures.registry import measures
from core.store.database import Store
from core.store.queries.cases import add_cases
from core.store.sample import add_sample

CONVERSATIONS = sized(125_000, 600)
TRIALS = 5
CASE_SET = "many"
_MEASURED = 0.95
"""The share of the conversations that are measured already."""


@dataclass(frozen=True)
class Planned:
    """A run: its doctor, the doctor's skill (0 to 1), further settings, and the framework that it repeats."""

    run_id: str
    doctor: str
    skill: float
    settings: tuple[tuple[str, object], ...] = ()
    protocol: str = "craftmd"
    graders: tuple[str, ...] = ("openai/gpt-4",)


DOCTORS = ("gpt-4-0613", "gpt-4-1106", "gpt-4o-2024-05-13", "gpt-4o-2024-08-06", "llama-3-70b", "mistral-large", "o1")
RUNS: tuple[Planned, ...] = (
    *(Planned(f"many-{n}", f"openai/{name}", 0.35 + 0.05 * n) for n, name in enumerate(DOCTORS)),
    Planned("many-anxious", f"openai/{DOCTORS[2]}", 0.38, (("persona", "anxious"),)),
    Planned("many-short", f"openai/{DOCTORS[4]}", 0.45, (("max_messages", 16),)),
    Planned("many-regraded", "openai/qwen-72b", 0.5, graders=("openai/gpt-4", "openai/gpt-4o")),
)
"""The runs that share the requested conversations equally."""
FURTHER_RUNS: tuple[Planned, ...] = (
    Planned("many-staffed", f"openai/{DOCTORS[2]}", 0.5, protocol="automedic"),
    Planned("many-staffed-too", f"openai/{DOCTORS[4]}", 0.4, protocol="automedic"),
    Planned("many-consulted", f"openai/{DOCTORS[4]}", 0.4, protocol="consultation"),
)
"""Further runs, with one trial of each case."""


def fill(store: Store, conversations: int = CONVERSATIONS) -> int:
    """Write a study of about this many conversations to an empty database; return its number of answers."""
    add_sample(store)
    measure_trials(store, measures().values(), processes=0)
    n_cases = max(1, conversations // TRIALS // len(RUNS))
    library_cases = library()
    with store.write() as connection:
        cases = []
        for n in range(n_cases):
            original = library_cases[n % len(library_cases)]
            name = f"{original.case_key.partition('/')[2]}-{n // len(library_cases)}"
            changes = {"case_key": f"{CASE_SET}/{name}", "dataset": f"{CASE_SET}-{'abc'[n % 3]}"}
            cases.append(original.model_copy(update=changes))
        add_cases(connection, cases)
        connection.execute(_PLACES, [[case.case_key for case in cases], [case.content_hash for case in cases]])
        connection.execute(_BASES)
        connection.execute(_ITEMS)
    for number, planned in enumerate((*RUNS, *FURTHER_RUNS)):
        with store.write() as connection:
            _write(connection, number, planned)
    with store.write() as connection:
        connection.execute(_COMPLETIONS)
        for name in ("places", "bases"):
            connection.execute(f"DROP TABLE filled_{name}")
    with store.read() as cursor:
        return int(cursor.execute("SELECT count(*) FROM answers").fetchall()[0][0])


def _write(connection: duckdb.DuckDBPyConnection, number: int, run: Planned) -> None:
    craftmd = run.protocol == "craftmd"
    (base, settings), *_ = connection.execute(
        "SELECT run_id, settings FROM runs WHERE run_id IN (SELECT base_run FROM filled_bases WHERE protocol = ?)",
        [run.protocol],
    ).fetchall()
    run_settings = {**orjson.loads(settings), **dict(run.settings)}
    run_settings.pop("study")
    arms = [":".join(arm) for arm in PAPER_ARMS] if craftmd else None
    values = {
        "run": run.run_id,
        "base": base,
        "protocol": run.protocol,
        "doctor": run.doctor,
        "grader": run.graders[0],
        "case_set": CASE_SET,
        "arms": arms,
        "trials": TRIALS if craftmd else 1,
        "settings": orjson.dumps(run_settings).decode(),
        "at": 1_790_000_000.0 + 86_400 * number,
        "skill": run.skill,
        "measured": _MEASURED,
    }
    for sql in _RUN_SQL:
        _execute(connection, sql, values)
    for grader in run.graders[1:]:
        _execute(connection, _REGRADED, {**values, "other": grader})
    connection.execute("DROP TABLE fresh")


def _execute(connection: duckdb.DuckDBPyConnection, sql: str, values: dict[str, object]) -> None:
    connection.execute(sql, {name: value for name, value in values.items() if f"${name}" in sql})


_PLACES = """
    CREATE TABLE filled_places AS
    SELECT case_key, content_hash, position, 'library/' || regexp_replace(split_part(case_key, '/', 2), '-[0-9]+$', '')
        AS base_key
    FROM (SELECT unnest($1::VARCHAR[]) AS case_key, unnest($2::VARCHAR[]) AS content_hash,
        unnest(range(len($1))) AS position)"""
_BASES = """
    CREATE TABLE filled_bases AS
    SELECT protocol, run_id AS base_run, trial_id AS base, case_key AS base_key, trials.content_hash AS base_hash,
        row_number() OVER (PARTITION BY protocol, case_key ORDER BY trial) - 1 AS nth,
        count(*) OVER (PARTITION BY protocol, case_key) AS of_case
    FROM trials JOIN runs USING (run_id)
    WHERE source = 'local' AND doctor = 'reference/bayes'"""
_ITEMS = """
    INSERT INTO case_lists BY NAME
    SELECT places.case_key, places.content_hash, kind, items, made_by, made_at
    FROM case_lists JOIN filled_places AS places ON case_lists.case_key = base_key"""
_COMPLETIONS = """
    INSERT INTO completions BY NAME
    SELECT case_key, content_hash, model, 'bench' AS prompt_hash, left(vignette, 200) AS first_half,
        substr(vignette, 201, 200) AS second_half, substr(vignette, 210, 150) AS completion, '' AS failure,
        hash(case_key, model) / 18446744073709551616.0 AS similarity, '{}' AS request, 200 AS tokens,
        0.001 AS cost_usd, 1.79e9 AS made_at
    FROM cases JOIN filled_places USING (case_key, content_hash),
        (SELECT unnest(['openai/gpt-4-0613', 'openai/o1']) AS model)"""
_U = "hash({0}) / 18446744073709551616.0"
_RUN_SQL = (
    """
    INSERT INTO runs BY NAME
    SELECT * REPLACE ($run AS run_id, $run AS fingerprint, $doctor AS doctor, 'openai/gpt-4' AS patient,
        $grader AS grader, $case_set AS case_set, md5($case_set) AS case_set_hash, coalesce($arms, arms) AS arms,
        $trials AS trials, $settings::JSON AS settings, $at AS created_at)
    FROM runs WHERE run_id = $base""",
    """
    INSERT INTO run_cases BY NAME
    SELECT $run AS run_id, case_key, content_hash, position FROM filled_places""",
    f"""
    CREATE TEMP TABLE fresh AS
    SELECT left(md5($run || case_key || trial), 20) AS trial_id, places.*, trial, base, base_hash,
        $at + position * {TRIALS} + trial AS since, {_U.format("$run, case_key, trial, 'failed'")} < 0.003 AS failed,
        {_U.format("$run, case_key, trial, 'measured'")} < $measured AS measured,
        {_U.format("case_key, 'hard'")} * 0.5 - 0.25 AS hard
    FROM filled_places AS places JOIN filled_bases AS bases USING (base_key)
    CROSS JOIN (SELECT unnest(range($trials)) AS trial)
    WHERE protocol = $protocol AND nth = trial % of_case ORDER BY position, trial""",
    """
    INSERT INTO trials BY NAME
    SELECT old.* REPLACE (fresh.trial_id AS trial_id, $run AS run_id, fresh.case_key AS case_key,
        fresh.content_hash AS content_hash, fresh.trial AS trial, if(failed, 'failed', 'finished') AS status,
        if(failed, 'answer', NULL) AS failed_where, if(failed, 'timeout', NULL) AS failure,
        if(failed, 'No answer within 60 s.', NULL) AS failure_message, since AS started_at, since + 0.9 AS finished_at,
        replace(replace(events, base, fresh.trial_id), '"at":1795436', '"at":' || (since // 1000)::BIGINT) AS events)
    FROM fresh JOIN trials AS old ON old.trial_id = base ORDER BY since""",
    """
    INSERT INTO utterances BY NAME
    SELECT fresh.trial_id, old.position, turn, role, call_id,
        if(contains(lower(text), 'final diagnosis') OR turn = 0, text,
            text || if(role = 'patient', ' That was day ', ' Now to number ') || (since % 1e6)::BIGINT || '.') AS text
    FROM fresh JOIN utterances AS old ON old.trial_id = base ORDER BY since, old.position""",
    """
    INSERT INTO probes BY NAME
    SELECT fresh.trial_id, turn, rank, diagnosis, probability
    FROM fresh JOIN probes AS old ON old.trial_id = base WHERE trial = 0 ORDER BY since, turn, rank""",
    """
    INSERT INTO answers BY NAME
    SELECT fresh.trial_id, format, question_type, status, reason, detail,
        left(md5(fresh.trial_id || format || question_type), 20) AS call_id,
        response || ' (' || (since % 1e6)::BIGINT || ')' AS response
    FROM fresh JOIN answers AS old ON old.trial_id = base
    WHERE list_contains((SELECT arms FROM runs WHERE run_id = $run), format || ':' || question_type)
        AND NOT (failed AND format IN ('summarized', 'multi_turn')) ORDER BY since""",
    f"""
    INSERT INTO grades BY NAME
    WITH judged AS (
        SELECT old.*, fresh.trial_id AS new_id, since, {_U.format("fresh.trial_id, format, question_type")} AS u,
            $skill + hard + CASE format WHEN 'vignette' THEN 0.15 WHEN 'single_turn' THEN 0.05 ELSE 0 END
            + if(question_type = 'mcq', 0.15, 0) AS p
        FROM fresh JOIN grades AS old ON old.trial_id = base
        WHERE EXISTS (FROM answers WHERE answers.trial_id = fresh.trial_id AND answers.format = old.format
            AND answers.question_type = old.question_type)
    )
    SELECT judged.* EXCLUDE (new_id, since, u, p) REPLACE (new_id AS trial_id, since + 0.5 AS graded_at,
        CASE WHEN rule = 'frq' THEN $grader WHEN rule = 'frq_top3' THEN $grader ELSE grader END AS grader,
        CASE WHEN u > 0.985 AND rule <> 'mcq_loose' THEN if(starts_with(rule, 'mcq'), 'multiple', 'ungradable')
             WHEN u < p THEN 'correct' ELSE 'incorrect' END AS verdict)
    FROM judged ORDER BY since""",
    """
    INSERT INTO calls BY NAME
    WITH asked AS (
        SELECT fresh.trial_id, since, old.position, 'dialogue' AS purpose, role, text AS response, case_key,
            content_hash, left(md5(fresh.trial_id || old.position), 20) AS call_id
        FROM fresh JOIN utterances AS old ON old.trial_id = base WHERE role = 'doctor' AND turn > 0
        UNION ALL
        SELECT fresh.trial_id, since, 500, 'answer', 'doctor', response, case_key, content_hash, call_id
        FROM fresh JOIN answers USING (trial_id)
        UNION ALL
        SELECT fresh.trial_id, since, 600, 'judge', 'grader', verdict, case_key, content_hash,
            left(md5(fresh.trial_id || format || rule), 20)
        FROM fresh JOIN grades USING (trial_id) WHERE rule = 'frq'
    )
    SELECT $run AS run_id, trial_id, position, call_id, role, purpose,
        if(role = 'grader', $grader, $doctor) AS model, split_part(model, '/', 2) AS served_by,
        '{"messages":[{"role":"system","content":' || to_json('Visit ' || call_id || '. ' || vignette) || '}]}'
            AS request,
        response, 'stop' AS finish_reason, 300 + length(vignette) // 4 AS prompt_tokens,
        length(response) // 4 AS completion_tokens, false AS tokens_estimated, 0.8 AS latency_s, 1 AS attempts,
        0.001 AS cost_usd, '[]' AS parts
    FROM asked JOIN cases USING (case_key, content_hash) ORDER BY since, position""",
    """
    INSERT INTO misuses BY NAME
    SELECT fresh.trial_id, old.* EXCLUDE (trial_id) FROM fresh JOIN misuses AS old ON old.trial_id = base""",
    """
    INSERT INTO ratings BY NAME
    SELECT fresh.trial_id, old.* EXCLUDE (trial_id) REPLACE (1 + hash(fresh.trial_id) % 5 AS rating)
    FROM fresh JOIN ratings AS old ON old.trial_id = base""",
    """
    INSERT INTO scores BY NAME
    SELECT old.* REPLACE (fresh.trial_id AS trial_id, replace(against, base_hash, fresh.content_hash) AS against)
    FROM fresh JOIN scores AS old ON old.trial_id = base WHERE fresh.measured ORDER BY since""",
)
_REGRADED = f"""
    INSERT INTO grades BY NAME
    SELECT grades.* REPLACE ($other AS grader, graded_at + 1000 AS graded_at,
        CASE WHEN {_U.format("trial_id, format, 'other'")} < 0.1 THEN if(verdict = 'correct', 'incorrect', 'correct')
             ELSE verdict END AS verdict)
    FROM grades JOIN (SELECT trial_id FROM fresh) USING (trial_id) WHERE rule = 'frq'"""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--conversations", type=int, default=CONVERSATIONS)
    options = parser.parse_args(arguments)
    begun = time.perf_counter()
    answers = fill(Store(options.path), options.conversations)
    size = options.path.stat().st_size / 1e6
    print(f"{answers:,} answers in {time.perf_counter() - begun:.0f} s, {size:,.0f} MB")


if __name__ == "__main__":
    main()
