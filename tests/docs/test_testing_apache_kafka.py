"""docs/testing-apache-kafka.md: its transcript is real, and it states every limit and usual setting of the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.harness.systems.kafka.properties import FEATURES, USUAL
from squall.harness.systems.kafka.system import ApacheKafka
from squall.harness.systems.kafka.versions import NEWEST
from tests.docs.test_readme import ROOT, assert_does_what_it_says, place
from tests.docs.transcripts import Block, blocks_of

__all__ = ["place"]

PAGE = ROOT / "docs" / "testing-apache-kafka.md"


def test_the_page_states_every_limit_and_setting() -> None:
    text = PAGE.read_text(encoding="utf-8")
    internal = {name for name in USUAL if name.endswith(".num.partitions")}
    named = [*ApacheKafka.limits.faults, *FEATURES, *(USUAL.keys() - internal)]
    assert [name for name in named if f"`{name}`" not in text] == []
    assert f"version: {NEWEST}" in text and all(why in text for why in ("mutants | refused", "replicas of internal"))


@pytest.mark.lab
@pytest.mark.full
@pytest.mark.spark
@pytest.mark.xdist_group("apache-kafka")
@pytest.mark.parametrize("block", list(blocks_of(PAGE, "console")), ids=lambda block: block.name)
def test_a_run_on_apache_kafka_does_what_the_page_says(block: Block, place: Path) -> None:
    assert_does_what_it_says(block, place)
