"""Hops, the last replica standing, and the command that runs all experiments."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

from squall.benchmarks.experiments import hops, last_replica_standing, sources
from squall.benchmarks.parts.measurement import Measurement
from squall.harness.cli.figures.bench import draw, measure, names, rule
from squall.harness.errors import UsageError
from squall.nodes.protocol.messages import ApiKey


def test_a_write_at_the_active_controller_takes_two_hops_less_than_through_a_broker() -> None:
    """MD-09."""
    chains = hops.counted()
    assert [one.api for one in chains["direct"]] == [ApiKey.CREATE_TOPICS, None, ApiKey.FETCH, None]
    assert [one.api for one in chains["through"]] == [
        ApiKey.CREATE_TOPICS, ApiKey.CREATE_TOPICS, None, ApiKey.FETCH, None, None,
    ]  # fmt: skip
    assert len(chains["news"]) == 4


@pytest.mark.parametrize(
    ("problem", "lost"),
    [("lost_write (993)", 993), ("1 498 acknowledged records are missing from the log", 1498), ("", 0)],
)
def test_lost_records_are_counted_by_the_words_of_the_checker(problem: str, lost: int) -> None:
    result: Any = SimpleNamespace(verdict="invalid", problem=problem)
    assert last_replica_standing.lost_in(result) == lost
    assert last_replica_standing.figure("kill, none", [result]).passed == (lost == 0)


@pytest.mark.full
def test_only_power_loss_without_eligible_leaders_loses_records() -> None:
    """EL-01, HX-16."""
    lost = {one.name: one.measured for one in last_replica_standing.run(short=True)}
    assert [name for name, value in lost.items() if value] == ["acknowledged and lost: power loss, none"]


def test_sources_runs_every_experiment_and_draws_every_chart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hops, "run", lambda short: [Measurement(f"{short}", 1.0, "")])
    monkeypatch.setattr(hops, "pictures", lambda found: {"hops": found[0].name})
    monkeypatch.setattr(sources, "modules", lambda: {"hops": hops})
    (one,) = sources.run(short=True)
    assert one.name == "hops · True"
    assert sources.pictures([one]) == {"hops": "True"}


def test_every_experiment_is_a_benchmark_and_says_what_it_draws() -> None:
    assert set(sources.modules()) < set(names())
    assert all(hasattr(module, "pictures") for module in sources.modules().values())


def test_charts_are_refused_where_there_are_none(tmp_path: Any) -> None:
    with pytest.raises(UsageError, match=r"draws none; these do:.*hops"):
        draw(tmp_path, "interpreter", [])
    with pytest.raises(UsageError, match="--short"):
        measure("interpreter", short=True)


def test_a_chart_is_one_file_with_its_style_and_title(tmp_path: Any) -> None:
    arms = last_replica_standing.ARMS
    (path,) = draw(tmp_path, "last-replica-standing", [
        Measurement(f"acknowledged and lost: {arm}", 1.0, "records") for arm in arms
    ])  # fmt: skip
    drawn = ElementTree.fromstring(path.read_text())
    assert "last replica standing" in "".join(drawn.itertext())
    assert "http" not in path.read_text().replace("http://www.w3.org/2000/svg", "")


def test_a_rule_is_a_range_or_a_bar() -> None:
    assert rule(Measurement("a", 2.0, "", within=(1.0, 3.0))) == "1 to 3"
    assert not Measurement("a", 4.0, "", within=(1.0, 3.0)).passed
    assert rule(Measurement("a", 2.0, "", must=5)) == "≥ 5"
