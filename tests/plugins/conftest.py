"""The example packages of the guides, installed once beside Squall."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugins.packages import GUIDES, install, write_package_of


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which the packages of all guides are installed."""
    directory = tmp_path_factory.mktemp("packages")
    install([write_package_of(guide, directory / guide.removesuffix(".md")) for guide in GUIDES], directory / "site")
    return directory / "site"
