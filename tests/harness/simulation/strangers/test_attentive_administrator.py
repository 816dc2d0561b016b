"""A client that looks at its own topic often, and does what an administrator may do when it meets a change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from squall.harness.conformance.client import Patience
from squall.harness.scenario.suite import TopicOptions
from squall.harness.simulation.strangers.attentive_administrator import (
    DELETE,
    FIRST_VALUE,
    NAMES,
    SETTINGS,
    AttentiveAdministrator,
)
from squall.harness.simulation.swarm.budget import FLUSH_MESSAGES, FaultBudget
from squall.harness.simulation.world.world import SimWorld
from squall.nodes.metadata.topic_configs import MIN_ISR
from squall.nodes.protocol.messages.incremental_alter_configs import AlterableConfig
from squall.nodes.protocol.messages.metadata import MetadataResponsePartition
from tests.harness.simulation.strangers.visited import SECOND, Visited

EVERYTHING = {"append", "cancel", "change_min_isr", "change_setting", "delete_records", "elect", "move"}


class Attended(Visited[AttentiveAdministrator]):
    """Four brokers; the client's topic has three replicas."""

    def __init__(self, like: TopicOptions | None = None) -> None:
        self.altered: list[bool] = []
        """For each change of a setting, whether a broker might have lost its data meanwhile."""
        self.like = like
        super().__init__(self.made, brokers=4)

    def made(
        self, world: SimWorld, patience: Patience, like: TopicOptions, on_send: Callable[[int], None]
    ) -> AttentiveAdministrator:
        like = self.like or like
        self.budget = FaultBudget(world, {"events": like})
        return AttentiveAdministrator(world, patience, like, on_send, self.budget)

    def change_min_isr(self, *, answered: bool) -> None:
        """Let it change the setting once. `answered`: whether a broker confirms the change."""

        async def alter(*_settings: AlterableConfig) -> bool:
            self.altered.append(self.budget.allows("power-loss-broker", "b1", 1.0, at_once=True))
            return answered

        self.client._alter = alter  # type: ignore[method-assign]
        self.world.kernel.run_until_complete(self.client._change_min_isr(MetadataResponsePartition()))

    def load(self, seconds: int) -> None:
        super().load(seconds)
        self.world.switch_off()

    def steps(self, *, leader: int = 1, isr: tuple[int, ...] = (1, 2, 3), changed: bool = False) -> Counter[str]:
        """What it chooses to do, of 1,000 times, where it sees this."""
        seen = MetadataResponsePartition(leader_id=leader, replica_nodes=[1, 2, 3], isr_nodes=list(isr))
        names = (self.client._chosen(seen, changed=changed).__name__ for _ in range(1_000))
        return Counter(name.removeprefix("_") for name in names)


def test_it_appends_and_does_all_the_rest_in_time() -> None:
    attended = Attended()
    attended.load(60)
    assert attended.client.done.keys() == EVERYTHING
    assert 50 < attended.client.appended <= len(attended.sent)
    assert attended.sent == [FIRST_VALUE + number for number in range(len(attended.sent))]


@pytest.mark.parametrize(
    ("leader", "isr", "changed", "remarkable"),
    [
        (1, (1, 2, 3), False, {"append"}),
        (2, (1, 2, 3), True, {"delete_records"}),
        (-1, (), True, {"change_min_isr", "elect"}),
        (1, (1, 2), False, {"change_min_isr", "move"}),
    ],
    ids=["nothing new", "another leader", "no leader", "a replica out of sync"],
)
def test_what_it_sees_decides_what_it_does(
    leader: int, isr: tuple[int, ...], changed: bool, remarkable: set[str]
) -> None:
    steps = Attended().steps(leader=leader, isr=isr, changed=changed)
    assert steps.keys() == EVERYTHING, "anything may be done at any time"
    usual = [steps[name] for name in EVERYTHING - remarkable - {"append"}]
    assert all(steps[name] > 2 * max(usual) for name in remarkable)


def test_it_moves_a_topic_partition_to_the_replicas_that_are_out_of_sync() -> None:
    attended = Attended()
    targets: list[list[int]] = []

    async def note(target: list[int] | None) -> None:
        assert target is not None
        targets.append(target)

    attended.client._reassign = note  # type: ignore[method-assign]
    seen = MetadataResponsePartition(leader_id=1, replica_nodes=[1, 2, 3], isr_nodes=[1])
    for _ in range(20):
        attended.world.kernel.run_until_complete(attended.client._move(seen))
    assert all({2, 3} <= set(target) and len(set(target)) == len(target) for target in targets)
    assert {len(target) for target in targets} == {3, 4}


@pytest.mark.parametrize(
    ("like", "may"),
    [
        (TopicOptions(min_insync_replicas=1, config={"segment.bytes": 500}), True),
        (TopicOptions(min_insync_replicas=2), False),
        (TopicOptions(min_insync_replicas=1, config={FLUSH_MESSAGES: 1}), False),
        (TopicOptions(min_insync_replicas=1, config={FLUSH_MESSAGES: 3}), True),
    ],
    ids=["nothing relies on them", "min ISR", "every record is synced", "some records are synced"],
)
def test_it_resets_all_settings_where_no_more_may_be_lost_by_that(like: TopicOptions, may: bool) -> None:
    attended = Attended(like)
    assert ("reset_all" in attended.steps()) is may
    reset: list[AlterableConfig] = []

    async def note(*settings: AlterableConfig) -> bool:
        reset.extend(settings)
        return True

    attended.client._alter = note  # type: ignore[method-assign]
    attended.world.kernel.run_until_complete(attended.client._reset_all(MetadataResponsePartition()))
    assert {(one.config_operation, one.value) for one in reset} == {(DELETE, None)}
    assert {one.name for one in reset} >= {MIN_ISR, *like.config}
    attended.world.switch_off()


def test_a_topic_loses_all_of_its_settings() -> None:
    """No record of them is in a snapshot then."""
    attended = Attended(TopicOptions(min_insync_replicas=1, config={"segment.bytes": 500}))
    attended.load(60)
    assert attended.client.done["reset_all"]


def test_a_creation_of_unknown_outcome_is_not_repeated_under_the_same_name() -> None:
    attended = Attended()
    for name in ("c1", "c2", "c3"):
        attended.world.processes[name].crash()
    attended.load(60)
    assert (attended.client.names, attended.client.done) == (NAMES, {})


def test_it_changes_no_min_isr_while_a_loss_is_outstanding() -> None:
    """EL-06: the change empties the list of eligible leader replicas, and the ISR may be one broker."""
    attended = Attended()
    assert attended.budget.allows("power-loss-broker", "b1", 1.0)
    attended.change_min_isr(answered=True)
    assert attended.altered == []
    attended.world.switch_off()


@pytest.mark.parametrize("answered", [True, False])
def test_nobody_loses_data_while_it_changes_min_isr(answered: bool) -> None:
    """Seed 1001965 of worlds: the list of eligible leader replicas was emptied, and the only member of the ISR lost
    power. A change without an answer may still arrive."""
    attended = Attended()
    attended.change_min_isr(answered=answered)
    assert attended.altered == [False], "no loss is allowed meanwhile"
    attended.world.kernel.run_for(SECOND)
    assert attended.budget.allows("power-loss-broker", "b1", 1.0) is answered
    attended.world.kernel.run_for(20 * SECOND)
    assert attended.budget.allows("power-loss-broker", "b1", 1.0)
    attended.world.switch_off()


@pytest.mark.parametrize(("synced", "expected"), [(1, False), (5, True), (None, True)])
def test_it_keeps_the_setting_that_makes_a_power_loss_harmless(synced: int | None, expected: bool) -> None:
    """Seed 1002112 of worlds: the budget allowed any loss of power, as all records were synced, until they were not."""
    config = {} if synced is None else {FLUSH_MESSAGES: synced}
    attended = Attended(TopicOptions(config=config))
    attended.load(1)
    settings: set[str] = set()

    async def note(setting: AlterableConfig) -> bool:
        settings.add(setting.name)
        return True

    attended.client._alter = note  # type: ignore[method-assign]
    for _ in range(200):
        attended.world.kernel.run_until_complete(attended.client._change_setting(MetadataResponsePartition()))
    assert (FLUSH_MESSAGES in settings) is expected
    assert settings | {FLUSH_MESSAGES} == {*SETTINGS}
