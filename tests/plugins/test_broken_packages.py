"""A package that is broken, or takes a name, breaks what uses it, with an error that says what would be right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugins.packages import run_python, squall, write_installed

LOG = "scenario: plain\nfault_free: true\n"
FAULT = "scenario: mine\nnemesis: [{fault: mine, target: b1, at: 1s}]\n"
WORKLOAD = "scenario: mine\nfault_free: true\nworkload: {name: mine}\n"
CHECK = "scenario: mine\nfault_free: true\nchecks: [log, mine]\n"
SYSTEM = "scenario: mine\nfault_free: true\ncluster: {system: mine}\n"

GROUPS = {
    "squall.faults": (FAULT, "nemesis[0]", "a Kind of squall.nemesis.faults.kind (docs/writing-a-fault.md)"),
    "squall.workloads": (
        WORKLOAD,
        "workload",
        "a WorkloadKind of squall.workloads.workload (docs/writing-a-workload.md)",
    ),
    "squall.checks": (CHECK, "checks[1]", "a Check of squall.results.checkers.check_plugins (docs/writing-a-check.md)"),
    "squall.systems": (
        SYSTEM,
        "cluster.system",
        "a class that follows System of squall.harness.hosts.system (docs/writing-a-system.md)",
    ),
}


def suite(directory: Path, text: str) -> str:
    (directory / "suite.yaml").write_text(text)
    return str(directory / "suite.yaml")


@pytest.mark.parametrize("group", GROUPS)
def test_a_package_that_cannot_be_imported_breaks_only_suites_that_name_it(group: str, tmp_path: Path) -> None:
    text, field, wanted = GROUPS[group]
    site = write_installed(tmp_path / "site", group, {"mine": "my_module:MINE"}, {"my_module": "import no_such_module"})
    broken = squall("plan", suite(tmp_path, text), plugins=site)
    assert broken.status == 254
    assert f"{field}: " in broken.out
    assert f"package squall-mine 1.2, entry point {group}: mine = my_module:MINE: cannot be imported" in broken.out
    assert "ModuleNotFoundError: No module named 'no_such_module'" in broken.out
    assert f"the entry point must name {wanted}" in broken.out
    assert squall("plan", suite(tmp_path, LOG), plugins=site).status == 0
    assert squall("--help", plugins=site).status == 0


@pytest.mark.parametrize("group", GROUPS)
def test_an_entry_point_that_names_something_else_is_refused(group: str, tmp_path: Path) -> None:
    text, field, wanted = GROUPS[group]
    site = write_installed(tmp_path / "site", group, {"mine": "my_module:MINE"}, {"my_module": "MINE = 3"})
    broken = squall("plan", suite(tmp_path, text), plugins=site)
    assert broken.status == 254
    assert f"{field}: " in broken.out
    assert f"entry point {group}: mine = my_module:MINE: names 3, which " in broken.out
    assert f"it must name {wanted}" in broken.out


@pytest.mark.parametrize(
    ("group", "name", "text"),
    [
        ("squall.faults", "kill", "scenario: mine\nnemesis: [{fault: kill, target: b1, at: 1s}]\n"),
        ("squall.workloads", "idempotence", "scenario: mine\nfault_free: true\nworkload: {name: idempotence}\n"),
        ("squall.checks", "groups", "scenario: mine\nfault_free: true\nchecks: [log, groups]\n"),
    ],
)
def test_a_name_of_ours_cannot_be_taken(group: str, name: str, text: str, tmp_path: Path) -> None:
    site = write_installed(tmp_path / "site", group, {name: "my_module:MINE"}, {"my_module": "MINE = 3"})
    broken = squall("plan", suite(tmp_path, text), plugins=site)
    assert broken.status == 254
    assert f"entry point {group}: {name} = my_module:MINE: takes the name {name}" in broken.out
    assert "choose another name there" in broken.out
    assert squall("plan", suite(tmp_path, LOG), plugins=site).status == 0


def test_a_name_of_two_packages_is_refused(tmp_path: Path) -> None:
    site = write_installed(tmp_path / "site", "squall.faults", {"mine": "one:MINE"}, {"one": "MINE = 3"})
    write_installed(site, "squall.faults", {"mine": "two:MINE"}, {"two": "MINE = 3"}, package="squall-other")
    broken = squall("plan", suite(tmp_path, FAULT), plugins=site)
    assert broken.status == 254
    assert "squall-mine 1.2" in broken.out and "squall-other 1.2" in broken.out
    assert "keep one of these packages installed" in broken.out


def test_the_options_of_a_fault_must_have_its_name(tmp_path: Path) -> None:
    module = """
from typing import Literal
from squall.nemesis.faults.kind import Kind
from squall.nemesis.options.base import FaultOptions
class Mine(FaultOptions):
    fault: Literal["yours"]
MINE = Kind(Mine, None, (), on_hosts="", proof="")
"""
    site = write_installed(tmp_path / "site", "squall.faults", {"mine": "my_module:MINE"}, {"my_module": module})
    broken = squall("plan", suite(tmp_path, FAULT), plugins=site)
    assert broken.status == 254
    assert "options do not have the field `fault: Literal['mine']`" in broken.out


def test_the_options_of_a_workload_must_have_what_every_workload_has(tmp_path: Path) -> None:
    module = """
from typing import Literal
from pydantic import BaseModel
from squall.workloads.workload import WorkloadKind
class Mine(BaseModel):
    name: Literal["mine"]
    producers: int = 1
MINE = WorkloadKind(Mine, None)
"""
    site = write_installed(tmp_path / "site", "squall.workloads", {"mine": "my_module:MINE"}, {"my_module": module})
    broken = squall("plan", suite(tmp_path, WORKLOAD), plugins=site)
    assert broken.status == 254
    assert "options lack client, acks, idempotent, final_timeout, operations, in_words" in broken.out


def test_the_list_of_faults_says_why_one_cannot_be_used(tmp_path: Path) -> None:
    site = write_installed(tmp_path / "site", "squall.faults", {"mine": "my_module:MINE"}, {"my_module": "1 / 0"})
    one = squall("faults", "mine", plugins=site)
    assert (one.status, "cannot be imported: ZeroDivisionError: division by zero" in one.out) == (254, True)
    code = "from squall.harness.catalogue.listing import catalogue_as_json as listed; import json; "
    shown = run_python(code + "print(json.dumps(listed(None, None)['kinds'][-1]))", site).out
    assert '"name": "mine"' in shown and '"package": "squall-mine 1.2"' in shown
    assert "ZeroDivisionError" in shown


def test_client_hosts_get_no_package_whose_files_are_elsewhere(tmp_path: Path) -> None:
    """As after an editable installation."""
    site = write_installed(tmp_path / "site", "squall.workloads", {"mine": "my_module:MINE"}, {"my_module": "MINE = 3"})
    asked = run_python("from squall.harness.hosts.client_bundle import packages_of; packages_of('mine')", site)
    assert "workload mine: client hosts cannot get the package squall-mine 1.2: my_module is not among" in asked.out
    assert "install the package without --editable" in asked.out
