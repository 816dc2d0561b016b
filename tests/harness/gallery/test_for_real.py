"""Every entry for real: the broken version shows its anomaly, the twin does not. Fetches jars; minutes."""

from __future__ import annotations

import shutil
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from squall.harness.gallery.core.entry import BROKEN, TWIN, ArmName, Entry
from squall.harness.gallery.entries import entries
from squall.harness.gallery.verify import conduct_and_judge

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("gallery")]


@pytest.mark.parametrize("arm", [BROKEN, TWIN])
@pytest.mark.parametrize("entry", entries(Path("nowhere")), ids=lambda entry: entry.name)
def test_the_broken_version_is_caught_and_its_twin_is_not(entry: Entry, arm: ArmName, tmp_path: Path) -> None:
    if entry.system.name != "kafka" and shutil.which("go") is None:
        pytest.skip("Go is not installed, which builds NATS and etcd; set-up does not install it")
    before = {one.pid for one in psutil.Process().children(recursive=True)}
    result = conduct_and_judge(entry.arm(arm), tmp_path, Console())
    assert result.outcome == "as expected", result.words
    left = [one for one in psutil.Process().children(recursive=True) if one.pid not in before]
    assert [one for one in left if one.status() != psutil.STATUS_ZOMBIE] == []
