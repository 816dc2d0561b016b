"""Make a list of jars: resolve coordinates with Maven, and pin every jar that they need by its SHA-256.

    .venv/bin/python scripts/pin_jars.py kafka-3.9.2 org.apache.kafka:kafka_2.13:3.9.2 org.slf4j:slf4j-simple:1.7.36

It writes `harness/artifacts/jars/NAME.yaml`. Compare the result with what the project publishes before it is committed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from squall.harness.artifacts.jar_cache import sha256
from squall.harness.artifacts.jar_lists import LISTS, Coordinates
from squall.harness.artifacts.maven import PLUGIN


def main(name: str, *roots: str) -> None:
    coordinates = [Coordinates.parsed(one) for one in roots]
    if not roots or None in coordinates:
        sys.exit("usage: pin_jars.py NAME GROUP:ARTIFACT:VERSION…")
    with tempfile.TemporaryDirectory() as directory:
        found = resolved([one for one in coordinates if one is not None], Path(directory))
        lines = [f"{one}: {sha256(path)}\n" for one, path in sorted(found.items(), key=lambda item: str(item[0]))]
    heading = f"# What {', '.join(roots)} need, made by scripts/pin_jars.py.\n"
    (LISTS / f"{name}.yaml").write_text(heading + "".join(lines))
    print(f"{LISTS / name}.yaml: {len(lines)} jars")


def resolved(roots: list[Coordinates], directory: Path) -> dict[Coordinates, Path]:
    """Return every jar that `roots` need at run time, and where it is now."""
    needed = "".join(
        f"<dependency><groupId>{one.group}</groupId><artifactId>{one.artifact}</artifactId>"
        f"<version>{one.version}</version></dependency>"
        for one in roots
    )
    (directory / "pom.xml").write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>squall</groupId><artifactId>jars</artifactId>"
        f"<version>1</version><packaging>pom</packaging><dependencies>{needed}</dependencies></project>"
    )
    jars = directory / "jars"
    subprocess.run(
        ["mvn", "-B", "-q", "-f", str(directory / "pom.xml"), f"{PLUGIN}:copy-dependencies",
         "-DincludeScope=runtime", "-Dmdep.useRepositoryLayout=true", f"-DoutputDirectory={jars}"],
        check=True,
    )  # fmt: skip
    return {coordinates_of(path.relative_to(jars)): path for path in jars.rglob("*.jar")}


def coordinates_of(path: Path) -> Coordinates:
    """Return what a path in a repository names: `org/slf4j/slf4j-api/1.7.36/slf4j-api-1.7.36.jar`."""
    *group, artifact, version, file = path.parts
    classifier = file.removeprefix(f"{artifact}-{version}").removesuffix(".jar").removeprefix("-")
    return Coordinates(".".join(group), artifact, version, classifier)


if __name__ == "__main__":
    main(*sys.argv[1:])
