"""Time of the control plane: monotonic in a healthy node, the wall clock's with the mutant (FD-05)."""

from __future__ import annotations

from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.node.control_time import NEVER, ControlTime


class Wall:
    def __init__(self) -> None:
        self.ms = 1_000_000

    def now_ms(self) -> int:
        return self.ms


def test_a_healthy_node_does_not_look_at_the_wall_clock() -> None:
    wall = Wall()
    time = ControlTime(wall, HEALTHY)
    assert time(7) == 7
    wall.ms += 3_600_000
    assert (time(8), time.deadline(50), time.deadline(NEVER)) == (8, 50, NEVER)


def test_the_mutants_time_follows_the_wall_clock_its_deadlines_the_nodes() -> None:
    wall = Wall()
    time = ControlTime(wall, Mutants(frozenset({"timers-on-wall-clock"})))
    begun = time(7)
    assert time.deadline(begun + 50) == 57
    wall.ms += 3_600_000
    assert time(8) - begun == 3_600_000_000
    assert time.deadline(NEVER) == NEVER
    heard: list[int] = []
    time.completing(lambda now, response: heard.append(now))(9, None)
    assert heard == [wall.ms * 1000]
