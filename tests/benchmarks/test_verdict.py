"""The verdict benchmark forges a history of the size it names and judges it in a fresh process."""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.benchmarks.verdict import SENDS, SPACING_NS, TOPIC_PARTITIONS, forge_history, one_verdict
from squall.results.synthetic.forge import Forge


def test_the_history_is_of_quickstarts_size() -> None:
    """A minute long; one of eight topic-partitions stands for all."""
    one = Forge(1, SENDS, 0, consumers=1, spacing=SPACING_NS)
    assert 55e9 < one.ended < 75e9
    assert 110_000 < TOPIC_PARTITIONS * len(one.operations) < 140_000


@pytest.mark.spark
@pytest.mark.full
def test_a_forged_history_is_judged_valid_by_a_fresh_process(tmp_path: Path) -> None:
    forge_history(tmp_path / "history", partitions=2, sends=100)
    seconds = one_verdict(tmp_path / "history", tmp_path)
    assert 0 < seconds.told <= seconds.ended
    assert not (tmp_path / "run").exists(), "the copy that was judged is gone"
