"""How one mutant is judged: which seeds are run, with which observer, and what counts as a kill (HX-17)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from squall.harness.simulation.mutation import judgement
from squall.harness.simulation.mutation.baseline import Baselines, fingerprint_of_code, place_in_rotation
from squall.harness.simulation.mutation.generation.mutation import Mutation, Source, module_path
from squall.harness.simulation.mutation.generation.operators import mutations_of
from squall.harness.simulation.mutation.judgement import (
    HISTORY,
    KILLED,
    NOT_REACHED,
    SIMULATION,
    SURVIVED,
    Bounds,
    Judgement,
    judge_in_simulation,
)
from squall.harness.simulation.mutation.process import WorkerProcess
from squall.harness.simulation.mutation.seeds import Loaded, SeedOutcome, SeedRun
from squall.harness.simulation.mutation.unit_tests import KnownTest, UnitTests

TEXT = "def run(a, b):\n    if a:\n        return a < b\n    return b\n"
MUTATION = next(one for one in mutations_of(Source("squall.nodes.raft.core", TEXT)) if one.operator == "boundary")
HERE = {"raft.core": f"{1 << 3:x}"}
HEALTHY = SeedOutcome("swarm", 1, "valid", (), "healthy", 1.0, reached=HERE)
BOTH = (SIMULATION, HISTORY)

Answer = Callable[[SeedRun], SeedOutcome]


def answer(asked: SeedRun, *broken: str, digest: str = "healthy", by_observer: bool = False) -> SeedOutcome:
    verdict = "invalid" if broken else "valid"
    return SeedOutcome(asked.scenario, asked.seed, verdict, broken, digest, 10.0, by_observer=by_observer)


def judged(
    monkeypatch: pytest.MonkeyPatch,
    twins: Sequence[SeedOutcome],
    answering: Answer,
    modes: tuple[str, ...] = BOTH,
    budget_s: float = 35.0,
) -> tuple[list[Judgement], list[tuple[int, bool]]]:
    """Judge the mutant with a worker that answers this; return the judgements, and (seed, observed) of every run."""
    ran: list[tuple[int, bool]] = []

    def run(asked: SeedRun) -> SeedOutcome:
        ran.append((asked.seed, asked.observed))
        return answering(asked)

    monkeypatch.setattr(judgement, "WorkerProcess", lambda loaded: SimpleNamespace(run=run, close=lambda: None))
    twins_in_turn = SimpleNamespace(at=lambda index: replace(twins[index % len(twins)], seed=index))
    bounds = Bounds(budget_s, 10)
    return judge_in_simulation(MUTATION, TEXT, twins_in_turn, bounds, modes), ran  # type: ignore[arg-type]


def test_a_run_that_the_observer_did_not_end_judges_both(monkeypatch: pytest.MonkeyPatch) -> None:
    found, ran = judged(
        monkeypatch, [HEALTHY], lambda asked: answer(asked, *(["lost_write"] if asked.seed == 2 else []))
    )
    assert [(one.outcome, one.by, one.seed, one.seconds) for one in found] == 2 * [(KILLED, ("lost_write",), 2, 30.0)]
    assert ran == [(0, True), (1, True), (2, True)]


def test_a_seed_that_the_observer_ended_runs_again_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def answering(asked: SeedRun) -> SeedOutcome:
        if asked.observed and asked.seed == 1:
            return answer(asked, "ISR", by_observer=True)
        return answer(asked, *(["lost_write"] if asked.seed == 2 else []))

    found, ran = judged(monkeypatch, [HEALTHY], answering)
    assert [(one.mode, one.by, one.seed, one.seconds) for one in found] == [
        (SIMULATION, ("ISR",), 1, 20.0),
        (HISTORY, ("lost_write",), 2, 30.0),
    ]
    assert ran == [(0, True), (1, True), (1, False), (2, False)]


def test_the_observer_is_left_on_if_only_the_simulation_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    found, ran = judged(
        monkeypatch, [HEALTHY], lambda asked: answer(asked, "ISR", by_observer=True), modes=(SIMULATION,)
    )
    assert [one.mode for one in found] == [SIMULATION]
    assert ran == [(0, True)]


def test_no_seed_begins_beyond_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    found, ran = judged(monkeypatch, [HEALTHY], answer, budget_s=35.0)
    assert [(one.outcome, one.tried) for one in found] == 2 * [(SURVIVED, 4)]
    assert len(ran) == 4


def test_seeds_that_do_not_reach_the_mutant_or_fail_without_it_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = replace(HEALTHY, reached={"raft.core": f"{1 << 4:x}"})
    failing = replace(HEALTHY, verdict="invalid", broken=("ISR",))
    found, ran = judged(monkeypatch, [elsewhere, failing, HEALTHY], lambda asked: answer(asked, "CRASH"))
    assert ran == [(2, True)]
    assert (found[0].skipped, found[0].tried) == (2, 1)
    found, ran = judged(monkeypatch, [elsewhere], answer)
    assert ([one.outcome for one in found], ran) == (2 * [NOT_REACHED], [])


def test_traces_that_differ_from_the_twins_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = judged(monkeypatch, [HEALTHY], lambda asked: answer(asked, digest="healthy" if asked.seed else "other"))
    assert (found[0].tried, found[0].differed) == (4, 1)


SCENARIO = "repeated-batch"
RETENTION = "tests/nodes/storage/test_retention.py"


def planted(module: str, original: str, replacement: str) -> tuple[Mutation, str]:
    """A mutant that replaces the only occurrence of a text."""
    text = module_path(module).read_text(encoding="utf-8")
    assert text.count(original) == 1
    begin = len(text.partition(original)[0].encode())
    line = text[:begin].count("\n") + 1
    return Mutation("planted", module, line, "planted", "", begin, begin + len(original), original, replacement), text


@pytest.fixture(scope="module")
def baselines(tmp_path_factory: pytest.TempPathFactory) -> Baselines:
    """The healthy twins of a scenario of two processor seconds."""
    return Baselines(tmp_path_factory.mktemp("twins") / "twins.jsonl", (SCENARIO,))


def test_a_planted_mutant_is_killed_and_an_equivalent_one_is_not(baselines: Baselines) -> None:
    """The healthy twin is run once, with probes, and has the trace of a run without them."""
    original = "expected = header.next_offset"
    harm, text = planted("squall.nodes.storage.log", original, "raise KeyError('planted')")
    same, _ = planted("squall.nodes.storage.log", original, "expected = (header.next_offset)")
    bounds = Bounds(1.0, 1)
    killed = judge_in_simulation(harm, text, baselines, bounds, BOTH)
    survived = judge_in_simulation(same, text, baselines, bounds, BOTH)
    baselines.close()
    assert [(one.outcome, one.by, one.scenario) for one in killed] == 2 * [(KILLED, ("CRASH",), SCENARIO)]
    assert [(one.outcome, one.tried, one.differed) for one in survived] == 2 * [(SURVIVED, 1, 0)]


def test_a_scenario_that_is_named_twice_has_twice_the_seeds() -> None:
    scenarios = ("worlds", "swarm", "worlds", "zookeeper")
    assert [place_in_rotation(scenarios, index) for index in range(8)] == [
        ("worlds", 0),
        ("swarm", 0),
        ("worlds", 1),
        ("zookeeper", 0),
        ("worlds", 2),
        ("swarm", 1),
        ("worlds", 3),
        ("zookeeper", 1),
    ]


def test_twins_are_kept_for_one_state_of_the_code(baselines: Baselines, tmp_path: Path) -> None:
    twin = baselines.at(0)
    assert twin.valid and twin.reached
    kept = baselines._path.read_text()
    (tmp_path / "twins.jsonl").write_text(kept)
    again = Baselines(tmp_path / "twins.jsonl", (SCENARIO,))
    assert again.at(0) == twin and again._worker is None
    (tmp_path / "twins.jsonl").write_text(kept.replace(fingerprint_of_code(), "of other code"))
    assert Baselines(tmp_path / "twins.jsonl", (SCENARIO,))._known == {}


@pytest.mark.parametrize(
    ("replacement", "name"), [("while True: pass", "HANG"), ("raise KeyError(1)", "CRASH"), ("[0] * 10**10", "CRASH")]
)
def test_what_a_mutant_does_to_its_process_is_bounded(replacement: str, name: str) -> None:
    mutation, text = planted(
        "squall.nodes.broker.hosting.clean_shutdown", "import annotations\n", "import annotations\n"
    )
    source = mutation.apply(text) + f"\ndef _planted():\n    {replacement}\n\n\n_planted()\n"
    worker = WorkerProcess(Loaded(mutation.module, source))
    found = worker.run(SeedRun(SCENARIO, 1, 1.5 if name else 60.0))
    worker.close()
    assert found.broken == ((name,) if name else ())


def test_unit_tests_kill_a_planted_mutant_and_not_an_equivalent_one(tmp_path: Path) -> None:
    """Only tests that execute the mutated statement are run."""
    module, original = "squall.nodes.storage.retention", "return start"
    line = module_path(module).read_text().splitlines()
    at = next(number for number, text in enumerate(line, 1) if text.strip() == original)
    here, elsewhere = {"storage.retention": f"{1 << at:x}"}, {"storage.retention": "1"}
    name = f"{RETENTION}::TestRetention::test_by_size_the_oldest_go_while_enough_is_left"
    harm, text = planted(module, original, "return start + 1")
    same, _ = planted(module, original, "return (start)")
    tests = UnitTests(tmp_path / "tests.jsonl")
    tests._tests = [
        KnownTest(f"{RETENTION}::test_below_the_start_nothing_can_be_read", 0.0, elsewhere),
        KnownTest(name, 0.1, here),
    ]
    killed, survived = tests.judge(harm, text), tests.judge(same, text)
    assert (killed.outcome, killed.by) == (KILLED, (name,))
    assert (survived.outcome, survived.tried) == (SURVIVED, 1)
    tests._tests = [KnownTest(name, 0.1, elsewhere)]
    assert tests.judge(harm, text).outcome == NOT_REACHED
