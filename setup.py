"""Packaging: the top-level folders are rooms of one namespace, `squall.<room>`.

pyproject.toml holds everything that can be said statically. The list of packages is computed here,
because setuptools' own discovery cannot prefix what it finds (docs/architecture.md, "Packaging").
"""

from setuptools import find_packages, setup

ROOMS = ("nodes", "workloads", "nemesis", "results", "harness", "benchmarks")

SUITES = "squall.suites"
"""Data only: the suites that are found by name in every directory (harness/suites.py)."""

packages = [f"squall.{room}" + (f".{inner}" if inner else "") for room in ROOMS for inner in ("", *find_packages(room))]

setup(
    packages=[*packages, SUITES],
    package_dir={SUITES: "suites", **{f"squall.{room}": room for room in ROOMS}},
    package_data={
        SUITES: ["**/*.yaml"],
        "squall.nodes": ["py.typed"],
        "squall.results": ["py.typed", "**/*.html", "**/*.css", "**/*.properties"],
        "squall.workloads": ["py.typed"],
        "squall.nemesis": ["py.typed", "**/*.c", "**/*.sh", "agent/hook/*.py"],  # the hook is a path entry, no package
        "squall.harness": ["py.typed"],
    },
)
