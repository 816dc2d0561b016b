"""The flame graphs in the documents: drawn of this code, headed by what they show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from squall.benchmarks.flame_graph import LOADS, TITLES, titled

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("load", LOADS)
def test_a_kept_graph_shows_the_produce_path_of_this_tree(load: str) -> None:
    svg = (ROOT / "docs" / f"{load}.svg").read_text("utf-8")
    modules = set(re.findall(r"\((nodes/[a-z_/]+\.py):\d+\)", svg))
    assert "nodes/broker/requests/produce.py" in modules
    assert not [module for module in modules if not (ROOT / module).exists()]
    assert TITLES[load] in svg


def test_a_graph_is_headed_by_what_it_shows() -> None:
    svg = '<text id="title" x="1">profiler --pid 7</text><text id="details"> </text>'
    assert titled(svg, "A broker") == '<text id="title" x="1">A broker</text><text id="details"> </text>'
