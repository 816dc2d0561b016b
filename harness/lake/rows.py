"""Turn results into rows of the lake: campaigns of many seeds, kill matrices, benchmarks. Pure functions.

The rows lack what is the same for all of them, such as the commit and the machine; `adding.py` puts it in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from squall.benchmarks.parts.measurement import Measurement
from squall.harness.simulation.mutation.judgement import KILLED
from squall.harness.simulation.mutation.ledger import Entry as Judged
from squall.harness.simulation.run.matrix import TrialResult
from squall.harness.simulation.run.run import SimResult
from squall.results.lake.figure_names import figure_names
from squall.results.synthetic.forge_verify import CaseResult

Row = dict[str, Any]
Rows = dict[str, list[Row]]
"""Rows by table."""

LONGEST_TEXT = 500
MOST_SEEDS = 1_000
"""A campaign's row lists at most so many seeds that were not valid."""


def of_seeds(results: Sequence[SimResult], **more: Any) -> Row:
    """Return the row of a campaign of seeds; `more` are further columns, which prevail."""
    verdicts = Counter(one.verdict for one in results)
    failed = sorted((one for one in results if one.verdict != "valid"), key=lambda one: one.seed)
    broken = Counter(name for one in failed for name in one.broken)
    row: Row = {
        "seeds": len(results),
        "valid": verdicts["valid"],
        "invalid": verdicts["invalid"],
        "unknown": verdicts["unknown"],
        "failed_seeds": [one.seed for one in failed[:MOST_SEEDS]],
        "processor_s": sum(one.processor_s for one in results),
        "simulated_s": sum(one.simulated_s for one in results),
        "broken": [name for name, _ in broken.most_common()],
        "result": _first_failure(failed),
    }
    return row | more


def _first_failure(failed: Sequence[SimResult]) -> str:
    if not failed:
        return ""
    first = next((one for one in failed if one.verdict == "invalid"), failed[0])
    return short(f"seed {first.seed}: {next(iter(first.problem.splitlines()), ', '.join(first.broken))}")


def of_matrix(rows: Sequence[TrialResult], runs: Sequence[SimResult], **more: Any) -> Rows:
    """Return the rows of a verification of mutants: the campaign, and the kill matrix.

    The campaign counts pairs of a mutant and a seed: valid if the mutant was caught and its twin was valid.
    """
    pairs = sum(one.seeds for one in rows)
    missed = sum(one.seeds - one.caught for one in rows)
    twins = sum(one.seeds - one.twin_valid for one in rows)
    failed = [one.trial.name for one in rows if not one.passed]
    campaign = of_seeds(runs) | {
        "seeds": pairs,
        "valid": pairs - missed,
        "invalid": missed,
        "unknown": 0,
        "failed_seeds": sorted({one.seed for row in rows for one in (*row.misses, *row.twin_failures)}),
        "broken": failed,
        "result": f"{len(rows) - len(failed)} of {len(rows)} mutants caught with valid twins; "
        f"{missed} of {pairs} missed, {twins} twins not valid",
    }
    return {"campaigns": [campaign | more], "mutants": [_trial(one) for one in rows]}


def _trial(row: TrialResult) -> Row:
    return {
        "kind": "documented",
        "mutant": row.trial.name,
        "requirement": row.trial.requirement,
        "scenario": row.trial.scenario,
        "mode": "simulation",
        "seeds": row.seeds,
        "caught": row.caught,
        "by": [name for name, _ in sorted(row.by.items(), key=lambda one: (-one[1], one[0]))],
        "twin_valid": row.twin_valid,
        "passed": row.passed,
        "seconds": row.processor_s,
    }


def of_generated(judged: Sequence[Judged], **more: Any) -> Rows:
    """Return the rows of a score: the campaign, which counts judgements, and one for each mutant and way of judging."""
    killed = sum(one.judgement.outcome == KILLED for one in judged)
    mutants = len({one.mutation.id for one in judged})
    campaign: Row = {
        "seeds": sum(one.judgement.tried for one in judged),
        "valid": killed,
        "invalid": len(judged) - killed,
        "unknown": 0,
        "processor_s": sum(one.judgement.seconds for one in judged),
        "result": f"{mutants} generated mutants; {killed} of {len(judged)} judgements are kills",
    }
    return {"campaigns": [campaign | more], "mutants": [_judgement(one) for one in judged]}


def _judgement(one: Judged) -> Row:
    killed = one.judgement.outcome == KILLED
    return {
        "kind": "generated",
        "mutant": one.mutation.id,
        "scenario": one.judgement.scenario,
        "mode": one.judgement.mode,
        "seeds": one.judgement.tried,
        "caught": int(killed),
        "by": list(one.judgement.by),
        "passed": killed,
        "outcome": one.judgement.outcome,
        "seconds": one.judgement.seconds,
    }


def of_cases(cases: Iterable[CaseResult], **more: Any) -> Rows:
    """Return the rows of a verification of the checks: a campaign for each case; valid where the check was right."""
    return {
        "campaigns": [
            {
                "scenario": f"{one.kind}: {one.case}",
                "first_seed": 0,
                "seeds": one.seeds,
                "valid": one.right,
                "invalid": one.seeds - one.right,
                "unknown": 0,
                "failed_seeds": [] if one.first_wrong is None else [one.first_wrong],
                "broken": [said for said, _ in one.said.most_common()],
                "result": f"must find {one.expected or 'nothing'}",
                "seconds": None,  # they are computed together
            }
            | more
            for one in cases
        ]
    }


def of_benchmark(name: str, figures: Sequence[Measurement], *, ended: bool) -> Rows:
    """Return a row for each figure of a benchmark."""
    names = figure_names([one.name for one in figures])
    return {
        "benchmarks": [
            {
                "benchmark": name,
                "figure": figure,
                "unit": one.unit,
                "better": "higher" if one.higher_is_better else "lower",
                "value": median(one.samples) if one.samples else one.measured,
                "samples": list(one.samples) or [one.measured],
                "must": one.must,
                "stretch": one.stretch,
                "passed": one.passed,
                "ended": ended,
                "peer": None if one.peer is None else one.peer.name,
                "peer_value": None if one.peer is None else one.peer.value,
            }
            for figure, one in zip(names, figures, strict=True)
        ]
    }


def short(text: str) -> str:
    """Return the text in at most `LONGEST_TEXT` characters."""
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"
