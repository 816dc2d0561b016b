"""docs/testing-other-families.md: its transcripts are real, and it states versions, settings and workloads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from squall.harness.systems.etcd.members import SETTINGS as ETCD_SETTINGS
from squall.harness.systems.etcd.system import Etcd
from squall.harness.systems.nats.configuration import SETTINGS as NATS_SETTINGS
from squall.harness.systems.nats.system import NatsJetStream
from tests.docs.test_readme import ROOT, assert_does_what_it_says, place
from tests.docs.transcripts import Block, blocks_of
from tests.harness.systems.families import NEEDS_GO

__all__ = ["place"]

PAGE = ROOT / "docs" / "testing-other-families.md"


@pytest.mark.parametrize(("system", "settings"), [(NatsJetStream, NATS_SETTINGS), (Etcd, ETCD_SETTINGS)])
def test_the_page_states_versions_settings_and_workloads(system: type, settings: tuple[str, ...]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    limits = system.limits  # type: ignore[attr-defined]
    assert ", ".join(limits.versions) in text
    assert [name for name in (*settings, *limits.programs) if f"`{name}`" not in text] == []


def commands() -> Iterator[object]:
    for block in blocks_of(PAGE, "console"):
        lab = [pytest.mark.full, pytest.mark.lab, pytest.mark.spark, pytest.mark.xdist_group("families"), NEEDS_GO]
        yield pytest.param(block, marks=lab if "full" in block.needs else [], id=block.name)


@pytest.mark.parametrize("block", list(commands()))
def test_a_command_does_what_the_page_says(block: Block, place: Path) -> None:
    assert_does_what_it_says(block, place)
