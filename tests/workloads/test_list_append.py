"""The workload `list-append`: whole reads, the same history for logs and lists, and a bug that both see."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from squall.harness.scenario.suite import Scenario, load_suite
from squall.harness.simulation.run.run import SimOptions, simulate
from squall.harness.simulation.world.kernel import Kernel
from squall.results.check import check_run
from squall.results.checkers.engine.engines import InProcess
from squall.results.history.history import History
from squall.results.history.manifest import Manifest
from squall.results.history.operation_tables import LIST_APPEND, recorded_kinds
from squall.workloads.clients.common.client import ClientPlan
from squall.workloads.clients.native.leaders import Replica
from squall.workloads.clients.native.native_full_log import READ_SECONDS, FullLogReader
from squall.workloads.core.operation import FAIL, INFO, OK, POLL, Completion, Operation
from squall.workloads.list_append import ListAppendOptions, ListAppendWorkload
from squall.workloads.workload import workload_of
from tests.harness.simulation.run.test_scenarios import Blindfold

SUITES = Path(__file__).resolve().parents[2] / "suites"
WHERE = ("events", 0)
READ = Operation(POLL, 0, 0, 0, 0, *WHERE)


def plan(**options: Any) -> ListAppendWorkload:
    made = workload_of(ListAppendOptions.model_validate({"name": "list-append", **options}), {"events": 2})
    assert isinstance(made, ListAppendWorkload)
    return made


def test_only_readers_read_everything_and_final_reads_go_on_as_ever() -> None:
    workload = plan(producers=1, readers=3)
    assert [client.whole for client in workload.shard(0, 1).clients] == [False, True, True, True]
    assert not any(client.whole for client in workload.final_shard().clients)


# --- a whole read ---------------------------------------------------------------------------------------------


class Reader(FullLogReader):
    """With a leader that answers by the script: the log's end, its start, then what each poll delivers."""

    def __init__(self, kernel: Kernel, end: Completion, start: Completion, polls: list[Completion]) -> None:
        class Clock:
            def now_ns(self) -> int:
                return kernel.now * 1000

        super().__init__(ClientPlan(0, "consumer", (0,), (WHERE,), whole=True), Leaders(), Clock())  # type: ignore[arg-type]
        self.bounds = {-1: end, -2: start}
        self.polls = polls

    async def _list_offsets(self, f: str, where: Any, leader: Any, timestamp: int) -> Completion:
        return self.bounds[timestamp]

    def lane(self, address: Any) -> Any:
        return self

    async def poll(self, where: Any, cursor: Any, leader: Any, replica: Any) -> Completion:
        await asyncio.sleep(1)
        completion = self.polls.pop(0) if self.polls else Completion(OK, session=cursor.session)
        if completion.offsets:
            cursor.position = completion.offsets[-1] + 1
        return completion


class Leaders:
    async def leader(self, where: Any) -> Any:
        return Replica(("b1", 9092), 1, 3)

    def forget(self, where: Any) -> None: ...


def polled(*offsets: int) -> Completion:
    return Completion(OK, offsets=offsets, values=tuple(10 + one for one in offsets), leader_epoch=3)


def whole_read(end: int, *polls: Completion, start: int = 0) -> Completion:
    kernel = Kernel()
    reader = Reader(kernel, Completion(OK, high_watermark=end), Completion(OK, log_start=start), list(polls))
    return kernel.run_until_complete(reader.invoke(READ))


def test_a_whole_read_is_as_many_polls_as_it_takes_and_one_in_the_history() -> None:
    found = whole_read(4, polled(0, 1), polled(2, 3, 4))
    assert (found.type, found.offsets, found.values) == (OK, (0, 1, 2, 3, 4), (10, 11, 12, 13, 14))
    assert (found.position, found.session, found.leader_epoch) == (0, 1, 3)


def test_an_empty_log_is_read_without_waiting_for_what_may_come() -> None:
    found = whole_read(0)
    assert (found.type, found.offsets, found.position) == (OK, (), 0)


def test_a_read_that_does_not_come_to_its_end_has_failed_as_a_whole() -> None:
    found = whole_read(4, polled(0, 1))
    assert (found.type, found.error, found.offsets) == (FAIL, "not_all_was_read_in_time", ())
    assert READ_SECONDS > 1


@pytest.mark.parametrize("kind", [FAIL, INFO])
def test_what_goes_wrong_in_the_middle_is_what_becomes_of_the_read(kind: Any) -> None:
    assert whole_read(4, polled(0, 1), Completion(kind, error="disconnected")).error == "disconnected"


def test_a_leader_that_does_not_know_the_end_is_not_believed_to_have_none() -> None:
    """KIP-207: a read that does not know where the list ends is none."""
    kernel = Kernel()
    refused = Completion(FAIL, error="offset_not_available")
    reader = Reader(kernel, refused, Completion(OK, log_start=0), [polled(0)])
    assert kernel.run_until_complete(reader.invoke(READ)) is refused


# --- against a cluster ---------------------------------------------------------------------------------------------


def scenario(suite: str, name: str, **changes: Any) -> Scenario:
    (found,) = load_suite(SUITES / f"{suite}.yaml").only(name).scenarios
    return found.model_copy(update=changes)


def test_a_run_is_judged_as_a_log_and_as_lists(tmp_path: Path) -> None:
    result = simulate(scenario("list-append", "list-append-calm"), 1, SimOptions(keep=tmp_path))
    assert (result.verdict, result.problem) == ("valid", "")
    run = tmp_path / "seed-1"
    verdict = check_run(run, InProcess(), report=False)
    assert verdict.verdict == "valid"
    (lists,) = [one for one in verdict.further if one.check == "list-append"]
    sends = sum(len(table) for *_, table in History.load(run).parts())
    assert lists.holds and 0 < lists.checked <= sends
    assert lists.checked == recorded_kinds(run, Manifest.load(run).run_id)[LIST_APPEND].num_rows


LISTS = ListAppendOptions.model_validate({"name": "list-append", "rate": "120/s", "reads": "20/s"})
TWO_HOPS = {"workload": LISTS, "checks": ("log", "list-append"), "min_acknowledged": 1}


@pytest.mark.full
def test_a_log_that_was_truncated_too_far_shows_as_lists_that_disagree(monkeypatch: pytest.MonkeyPatch) -> None:
    """N06 with the observer blindfolded, so that the checks are asked; and the healthy twin."""
    monkeypatch.setattr("squall.harness.simulation.run.run.Observer", Blindfold)
    two_hops = scenario("two-hop-failover", "two-hop-failover", **TWO_HOPS)
    broken = simulate(two_hops, 1, SimOptions(mutants=("truncate-to-hw",)))
    assert broken.verdict == "invalid" and {"lost_write", "incompatible_order"} <= set(broken.broken), broken.problem
    assert simulate(two_hops, 1, SimOptions()).verdict == "valid"
