"""Specifies which Java runs the programs of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from squall.harness.artifacts.java import java
from squall.harness.errors import UsageError


def installed(directory: Path, version: str) -> dict[str, str]:
    path = directory / "bin" / "java"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    path.chmod(0o755)
    return {"JAVA_HOME": str(directory), "PATH": "/nowhere"}


def test_java_home_is_used_before_path(tmp_path: Path) -> None:
    assert java(environment=installed(tmp_path, "17.0.15")) == tmp_path / "bin" / "java"


def test_an_old_java_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is Java 8; version 11 or newer is needed"):
        java(environment=installed(tmp_path, "1.8.0_402"))


def test_without_java_the_error_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no java on PATH(.|\n)*openjdk-17-jre-headless"):
        java(environment={"PATH": str(tmp_path)})
    with pytest.raises(UsageError, match=f"there is no java in JAVA_HOME={tmp_path}"):
        java(environment={"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin"})
