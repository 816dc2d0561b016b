"""docs/nightly.md: its examples are what they say they are: YAML, files of nights, commands that parse."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from squall.harness.cli.main import app
from squall.harness.nightly.hooks import missing_program
from squall.harness.nightly.plan.night_file import items_of, load_night
from tests.docs.test_readme import ROOT, assert_does_what_it_says, place
from tests.docs.transcripts import Block, blocks_of
from tests.harness.dashboard.test_browser import NIGHT_PICTURES

__all__ = ["place"]

PAGE = ROOT / "docs" / "nightly.md"
YAML = list(blocks_of(PAGE, "yaml"))
COMMAND = re.compile(r"squall (?:[^`|\n\\]|\\\n)+")


def workflow(name: str) -> Any:
    (block,) = [one for one in YAML if one.text.startswith(f"# {name}")]
    return yaml.safe_load(block.text)


def commands() -> Iterator[str]:
    """Every command that a table, a workflow or a crontab of the page has."""
    text = PAGE.read_text()
    for found in COMMAND.findall(text):
        line = re.split(r">>|  +#", found.replace("\\\n", " "))[0]
        line = re.sub(r"\$\{\{ matrix\.shard \}\}", "1/2", line)
        line = line.replace("$CI_NODE_INDEX/$CI_NODE_TOTAL", "1/2")
        if re.match(r"squall (nightly|run|check|simulate|bundle) ", line) and "SUITE" not in line and "RUN" not in line:
            yield line.strip()


@pytest.mark.parametrize("block", list(blocks_of(PAGE, "console")), ids=lambda block: block.name)
def test_a_command_of_the_page_does_what_it_says(block: Block, place: Path) -> None:
    assert_does_what_it_says(block, place)


@pytest.mark.parametrize("line", list(dict.fromkeys(commands())))
def test_every_command_parses(line: str) -> None:
    words = shlex.split(line)[1:]
    command = typer.main.get_command(app).commands[words[0]]  # type: ignore[attr-defined]
    command.make_context(words[0], words[1:])


def test_the_page_has_a_command_for_every_way_to_run_a_night() -> None:
    typed = "\n".join(commands())
    assert len(list(commands())) > 14
    for option in (
        "--budget",
        "--shard",
        "--clusters",
        "--provision",
        "--resume",
        "--rerun-failed",
        "--junit",
        "--wait",
    ):
        assert option in typed


def test_the_file_of_a_night_is_one(tmp_path: Path) -> None:
    (block,) = [one for one in YAML if one.text.startswith("night:")]
    (tmp_path / "night.yaml").write_text(block.text)
    for name in ("nightly.yaml", "two-hop-failover.yaml"):
        (tmp_path / name).symlink_to(ROOT / "suites" / name)
    (tmp_path / "nightly.yaml").unlink()
    (tmp_path / "nightly.yaml").write_text((ROOT / "suites" / "smoke.yaml").read_text())
    night, suites = load_night(str(tmp_path / "night.yaml"))
    items, _ = items_of(night, suites, seed=1, world=night.world)
    assert [one.id for one in items] == [
        "smoke",
        "two-hop-failover",
        "simulate-worlds",
        "mutants",
        "forge",
        "interpreter",
    ]
    assert night.commands().timeout_s == 600 and night.entries()[0].owner == "ann"


def test_the_workflow_of_github_runs_shards_and_keeps_what_they_leave() -> None:
    night = workflow(".github/workflows/nightly.yaml")["jobs"]["night"]
    assert night["strategy"]["matrix"]["shard"] == ["1/2", "2/2"] and night["strategy"]["fail-fast"] is False
    (run,) = [step["run"] for step in night["steps"] if step.get("name") == "night"]
    assert "--junit junit.xml" in run
    kept = night["steps"][-1]
    assert kept["if"] == "always()" and "junit.xml" in kept["with"]["path"] and "runs" in kept["with"]["path"]
    assert workflow(".github/workflows/nightly.yaml")[True]["schedule"], "YAML 1.1 reads `on` as true, GitHub does not"


def test_the_pipeline_of_gitlab_reports_junit_in_every_case() -> None:
    night = workflow(".gitlab-ci.yml")["night"]
    assert night["artifacts"]["when"] == "always" and night["artifacts"]["reports"]["junit"] == "junit.xml"
    assert any("--shard $CI_NODE_INDEX/$CI_NODE_TOTAL" in line for line in night["script"])


def test_set_up_is_by_a_script_that_exists() -> None:
    for name in re.findall(r"(scripts/\S+)", PAGE.read_text()):
        assert (ROOT / name).exists() and not missing_program(str(ROOT / name))


def test_the_crontab_has_five_fields_and_a_command() -> None:
    (block,) = blocks_of(PAGE, "crontab")
    (line,) = [one for one in block.text.splitlines() if not one.startswith("#")]
    assert re.match(r"(?:[\d*/,-]+ ){5} *cd ", line)


def test_pictures_of_the_page_are_those_that_tests_make() -> None:
    shown = re.findall(r"!\[[^]]+\]\(([^)]+)\)", PAGE.read_text())
    assert sorted(shown) == sorted(NIGHT_PICTURES)
    assert all((ROOT / "docs" / name).is_file() for name in shown)
