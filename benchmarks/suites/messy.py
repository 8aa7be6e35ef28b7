"""Real files that people publish and complain about, each with a question; they lie with the tests, with their licences."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from benchmarks.suites.base import Oracle, Task
from benchmarks.suites.files import STATE, Files, solve_by_query

FOLDER = Path(__file__).parents[2] / "tests" / "data" / "messy"
NAME, VERSION = "messy", "1"

QUERIES = {
    "messy-02": "SELECT count(*) FROM banklist_raw WHERE trim(c3) = 'GA' AND c6 LIKE '%-10'",
    "messy-04": "SELECT count(*) FROM elenco_comuni_italiani_istat_2020_raw WHERE c15 = 'NA'",
    "messy-06": "SELECT sum(CAST(replace(each, ',', '') AS INT)) FROM (SELECT unnest([c3, c4, c5, c6, c7, c8, c9, c10, "
    "c11, c12, c13, c14]) AS each FROM begrotingsanalyse_2011_raw WHERE c2 = 'Aantal inwoners')",
    "messy-08": "SELECT sum(CAST(replace(c7, ',', '') AS DECIMAL(18, 2))) FROM spanish_chars_raw "
    "WHERE n > 1 AND c1 IS NOT NULL AND c7 IS NOT NULL",
    "messy-10": "SELECT CAST(c10 AS INT) FROM weird_head_padding_raw WHERE trim(c1) = 'Gefäßchirurgie'",
    "messy-12": "SELECT round(sum(CAST(ha AS DOUBLE)), 2) FROM (SELECT DISTINCT c1, c2, c3, c4, c5 AS ha FROM "
    "\"mutations_forêt_2010_2021_raw\" WHERE c2 LIKE '08%' AND c3 = '1 - Emprises urbaines' AND c4 = '31 - Forêts')",
    "messy-14": "SELECT count(*) FROM who_raw WHERE c2 = 'NA'",
    "messy-16": "SELECT min(CAST(c12 AS DOUBLE)) FROM bug_10283_raw WHERE c1 = 'D' AND c2 = 'DISPATCH' AND c3 = 'CASESOLUTION'",
    "messy-18": "SELECT sum(CAST(c3 AS DECIMAL(18, 1))) FROM milk_raw WHERE c1 LIKE '___-13'",
    "messy-20": "SELECT c1 || ' (' || change || ')' FROM (SELECT c1, CAST(replace(c9, ',', '') AS INT) - "
    "CAST(replace(c2, ',', '') AS INT) AS change FROM excel_pasting_raw WHERE n BETWEEN 5 AND 17) ORDER BY change LIMIT 1",
    "messy-22": 'SELECT sum("Value") FROM pivots_5 WHERE "Category" = \'blue\'',
    "messy-24": "SELECT CAST(c2 AS DOUBLE) FROM \"חישוב_נקודות_זיכוי_2_raw\" WHERE c1 LIKE 'סך המס שחושב%'",
    "messy-26": "SELECT count(*) FROM colorado_municipalities_small_xlsx_2 WHERE \"County_CSV\" LIKE '%,%'",
    "messy-28": "SELECT count(DISTINCT each.type) FROM donut_records, unnest(topping) AS toppings(each)",
    "messy-30": "SELECT count(*) FROM unterminated_quotes_raw WHERE json_valid(c1)",
    "messy-32": 'SELECT sum("önë") FROM silly_names WHERE "🦆"',
    "messy-34": "SELECT count(*) FROM stops",
    "messy-36": "SELECT c2 FROM (SELECT c2, CAST(left(c1, 19) AS TIMESTAMP) AS clock, regexp_extract(c1, "
    "'([+-])(\\d\\d):?(\\d\\d)?$', ['sign', 'hours', 'minutes']) AS zone FROM timestamp_timezone_raw "
    "WHERE n > 1 AND length(c1) > 19) ORDER BY clock - to_minutes(CASE zone.sign WHEN '-' THEN -1 ELSE 1 END * "
    "(60 * coalesce(TRY_CAST(zone.hours AS INT), 0) + coalesce(TRY_CAST(zone.minutes AS INT), 0))) LIMIT 1",
    "messy-38": "SELECT string_agg(c5, ',' ORDER BY n) FROM duplicate_headers_raw WHERE n > 1",
}
"""Reference solutions by the tools for tables."""


def suite() -> list[Task]:
    lines = (FOLDER / "manifest.jsonl").read_text(encoding="utf-8").splitlines()
    return [_task(told) for told in map(json.loads, lines)]


def _task(told: dict[str, Any]) -> Task:
    data = {Path(told["file"]).relative_to("files").as_posix(): FOLDER / told["file"]}
    number = told["answer_type"] == "number"
    return Task(
        id=told["id"],
        suite=NAME,
        version=VERSION,
        question=told["question"],
        schema={"type": "number" if number else "string"},
        gold_answer=float(told["answer"]) if number else told["answer"],
        gold_state=STATE,
        template=told["id"],
        calls_min=1,
        tolerance=_tolerance(told["answer"]) if number else 0.0,
        data=data,
        latency=0.0,
        world=functools.partial(Files, data),
        oracle=Oracle(solve_by_query, {"query": QUERIES[told["id"]]}),
    )


def _tolerance(answer: str) -> float:
    """A little more than half of the last decimal that the answer has; whole numbers are exact."""
    decimals = len(answer.partition(".")[2])
    return 0.51 * 10**-decimals if decimals else 0.0
