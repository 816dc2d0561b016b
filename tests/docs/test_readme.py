"""The README's tour does what it says, word for word.

Quick commands run here beside a forged run, which stands for the one that the tour makes in a lab; the whole tour, in
its order and on real hosts, is a long check (`make test-full`).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from squall.results.check import check_run
from squall.results.checkers.engine.engines import InProcess
from squall.results.history.store import point_latest
from squall.results.synthetic.forge import forge_run, healthy
from tests.docs.transcripts import Block, Command, blocks_of, commands_of, is_repeatable, is_shown_by

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
TOUR = tuple(blocks_of(ROOT / "README.md", "console"))
MARKS = {
    "spark": [pytest.mark.spark],
    "lab": [pytest.mark.lab, pytest.mark.full],
    "full": [pytest.mark.lab, pytest.mark.full],
}
MINUTES = 60.0


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where the tour is taken: suites as in the checkout, no runs yet."""
    (tmp_path / "suites").symlink_to(ROOT / "suites")
    return tmp_path


@pytest.fixture
def place_with_a_run(place: Path) -> Path:
    """The same, after a run: a forged one, judged, and the latest."""
    operations = healthy(1) + healthy(2, partition=1)
    run = forge_run(place / "runs" / "quickstart" / "2026-01-01T00-00-00", operations, seed=4711, scenario="quickstart")
    check_run(run, InProcess())
    point_latest(place / "runs", run)
    return place


def carry_out(command: Command, place: Path, minutes: float) -> str:
    """Type a command as a person would, and return what it printed; its exit status must be 0."""
    binaries = str(Path(sys.executable).parent)
    environment = os.environ | {"PATH": f"{binaries}:{os.environ['PATH']}", "COLUMNS": "160"}
    done = subprocess.run(
        ["bash", "-c", command.text],
        cwd=place,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=minutes * MINUTES,
    )
    assert done.returncode == 0, f"$ {command.text}\nexit status {done.returncode}\n{done.stdout}"
    return done.stdout


def assert_does_what_it_says(block: Block, place: Path, *, minutes: float = 4) -> None:
    """Every command of a block prints what the block shows, and every trace in it is the same."""
    traces = set()
    for command in commands_of(block):
        output = carry_out(command, place, minutes)
        shown = "\n".join(command.shown)
        exact = is_repeatable(command.text)
        assert is_shown_by(output, command.shown, exact=exact), (
            f"{block.name}: $ {command.text}\nshown:\n{shown}\n\nreal:\n{output}"
        )
        traces |= set(re.findall(r"^trace +([0-9a-f]+)$", output, re.MULTILINE))
    assert len(traces) <= 1, f"{block.name}: one seed, several traces: {traces}"


def quick() -> list[object]:
    return [
        pytest.param(block, id=block.name, marks=[mark for need in block.needs for mark in MARKS[need]])
        for block in TOUR
        if not {"lab", "full"} & set(block.needs)
    ]


@pytest.mark.parametrize("block", quick())
def test_a_quick_step_of_the_tour_does_what_it_says(block: Block, place_with_a_run: Path) -> None:
    assert_does_what_it_says(block, place_with_a_run)


@pytest.mark.lab
@pytest.mark.full
@pytest.mark.spark
@pytest.mark.timeout(1800)
@pytest.mark.xdist_group("tour")
def test_the_whole_tour_does_what_it_says_in_its_order(place: Path) -> None:
    for block in TOUR:
        assert_does_what_it_says(block, place, minutes=15)
        if "squall run suites/quickstart.yaml" in block.text:
            assert (place / "runs" / "latest" / "report.html").is_file()


def test_the_tour_has_every_step_it_promises() -> None:
    typed = "\n".join(command.text for block in TOUR for command in commands_of(block))
    for promised in ("squall plan", "squall run", "squall show", "squall check", "--mutant", "squall simulate"):
        assert promised in typed


def test_make_quickstart_is_the_run_of_the_tour() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(
        r"^quickstart:\n(?:\t.*\n)*\t@\.venv/bin/squall run suites/quickstart\.yaml$", makefile, re.MULTILINE
    )
    assert re.search(r"^test:", makefile, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = [target.split("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text)]
    relative = [target for target in targets if target and "://" not in target]
    missing = [target for target in relative if not (page.parent / target).exists()]
    assert not missing, f"{page.name} links to {missing}"


def test_every_page_is_reached_from_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    unlisted = [page.name for page in PAGES[1:] if f"(docs/{page.name})" not in readme]
    assert not unlisted


def test_make_check_selects_tests_that_are_there_and_need_neither_lab_nor_jvm() -> None:
    """A test file that is renamed must not silently leave the quick loop."""
    printed = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", "check"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    (line,) = [line for line in printed.splitlines() if "-m pytest" in line]
    assert "-m 'not full and not lab and not spark'" in line
    chosen = [word for word in line.split() if word.startswith("tests/")]
    assert len(chosen) > 30
    assert [name for name in chosen if not (ROOT / name).exists()] == []
    assert "make check" in (ROOT / "README.md").read_text()
