"""Fetch jars by their coordinates with Maven, which has the repositories, mirrors and proxies of its own settings.

`mvn` reads `~/.m2/settings.xml` and its own repository in `~/.m2`; without settings it asks Maven Central. One run
copies every jar that is asked for. It resolves no dependencies: the caller names each jar.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from squall.harness.artifacts.jar_lists import Coordinates
from squall.harness.errors import UsageError

PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
TIMEOUT_S = 600.0
LINES_SHOWN = 3


def fetch(wanted: Sequence[Coordinates], directory: Path) -> None:
    """Copy jars into `directory`, laid out as a Maven repository. Raises UsageError if one cannot be had."""
    program = shutil.which("mvn")
    if program is None:
        raise UsageError(
            f"mvn is not installed, and {len(wanted)} jars are missing, the first {wanted[0]}",
            remedy="install Maven (Debian and Ubuntu: apt-get install maven)",
        )
    directory.mkdir(parents=True, exist_ok=True)
    project = directory / "pom.xml"
    project.write_text(project_xml(wanted, directory))
    command = [program, "--batch-mode", "--quiet", "--file", str(project), f"{PLUGIN}:copy"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise UsageError(f"mvn did not finish in {TIMEOUT_S:.0f} s", remedy="see why: " + " ".join(command)) from None
    if ran.returncode != 0:
        raise UsageError(
            f"mvn cannot fetch the jars: {_reason(ran.stdout + ran.stderr)}",
            remedy="check the network, and the mirrors and proxies in ~/.m2/settings.xml",
        )


def project_xml(wanted: Sequence[Coordinates], directory: Path) -> str:
    """Return a project whose only content is the list of jars to copy."""
    items = "\n".join(_item(one, directory) for one in wanted)
    group, artifact, version = PLUGIN.split(":")
    return f"""<project>
<modelVersion>4.0.0</modelVersion>
<groupId>squall</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>
<build><plugins><plugin>
<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>
<configuration><artifactItems>
{items}
</artifactItems></configuration>
</plugin></plugins></build>
</project>
"""


def _item(one: Coordinates, directory: Path) -> str:
    fields = {
        "groupId": one.group,
        "artifactId": one.artifact,
        "version": one.version,
        "classifier": one.classifier,
        "outputDirectory": str((directory / one.path).parent),
        "destFileName": one.file_name,
    }
    inside = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in fields.items() if value)
    return f"<artifactItem>{inside}</artifactItem>"


def _reason(output: str) -> str:
    errors = [line.removeprefix("[ERROR]").strip() for line in output.splitlines() if line.startswith("[ERROR]")]
    shown = [line for line in errors if line][:LINES_SHOWN] or output.strip().splitlines()[-LINES_SHOWN:]
    return "\n".join(shown) or "it says nothing"
