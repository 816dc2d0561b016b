"""Which processors numpy sorts faster on without AVX-512, and that it takes the hint."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from squall.results.checkers.engine.processor import WITHOUT_AVX512, quick_sorting

TOLD = """processor\t: 0
vendor_id\t: {vendor}
cpu family\t: {family}
model\t\t: {model}
model name\t: a processor
"""


@pytest.mark.parametrize(
    ("vendor", "family", "model", "expected"),
    [
        ("AuthenticAMD", 25, 17, WITHOUT_AVX512),
        ("AuthenticAMD", 25, 97, WITHOUT_AVX512),
        ("AuthenticAMD", 25, 1, {}),
        ("AuthenticAMD", 26, 17, {}),
        ("GenuineIntel", 25, 17, {}),
    ],
)
def test_zen_4_alone_sorts_without(
    tmp_path: Path, vendor: str, family: int, model: int, expected: dict[str, str]
) -> None:
    (tmp_path / "cpuinfo").write_text(TOLD.format(vendor=vendor, family=family, model=model))
    assert quick_sorting(tmp_path / "cpuinfo") == expected


def test_an_unknown_processor_is_left_alone(tmp_path: Path) -> None:
    assert quick_sorting(tmp_path / "nothing") == {}


def test_numpy_says_nothing_and_sorts() -> None:
    program = "import numpy; print(numpy.sort(numpy.arange(1000)[::-1].copy())[:3].tolist())"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **WITHOUT_AVX512},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == (f"{np.arange(3).tolist()}\n", "")
