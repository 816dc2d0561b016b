"""A hold that picks out single messages: hosts carry it out, the simulation refuses it before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.harness.errors import UsageError
from squall.harness.scenario.plan import plan_suite, refuse_what_simulation_cannot
from squall.harness.scenario.suite import load_suite
from tests.facts import naming

SUITE = """\
scenario: held
nemesis: [{fault: rpc-hold, api: Fetch, to: all brokers, at: 5s, for: 5s%s}]
"""


@pytest.mark.parametrize("more", ["count: 1", "pass_others: true", "until: {api: Produce}"])
def test_the_simulation_refuses_what_its_network_cannot_do(tmp_path: Path, more: str) -> None:
    (tmp_path / "held.yaml").write_text(SUITE % f", {more}")
    suite = load_suite(tmp_path / "held.yaml")
    with pytest.raises(UsageError, match=naming("nemesis[0]", "rpc-hold", "single messages", "squall run")):
        refuse_what_simulation_cannot(suite.path, suite.scenarios[0])
    (plan,) = plan_suite(suite, 7, tmp_path)
    assert len(plan.schedule.faults) == 1, "hosts can"


def test_a_hold_of_all_messages_is_simulated(tmp_path: Path) -> None:
    (tmp_path / "held.yaml").write_text(SUITE % "")
    suite = load_suite(tmp_path / "held.yaml")
    refuse_what_simulation_cannot(suite.path, suite.scenarios[0])
