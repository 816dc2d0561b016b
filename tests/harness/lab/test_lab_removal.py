"""What `squall lab down` removes, and what it never does (HX-11).

No lab is brought up here: a lab's directories are made as `lab_up` makes them, or as an attacker would.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from squall.harness.errors import UsageError
from squall.harness.lab import lab as lab_module
from squall.harness.lab.lab import DATA, STATE, lab_directory, lab_down, lab_status, lab_up, state_root
from squall.harness.lab.owned import MARK, DirectoryNotOurs, make_owned, private_directory, remove_owned
from tests.facts import naming

GONE = {"supervisor": 1, "supervisor_started": -1, "holder": 1, "holder_started": -1}
"""Process 1 did not start then."""
BAD_NAMES = ("", ".", "..", "../..", "/", "a/b", "/etc", "Upper", "-x", "a b", "a\n", "x" * 100, "ä")


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runtime").mkdir(mode=0o700)
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setattr(lab_module, "DATA_ROOT", tmp_path / "data")


def made(name: str, **holder: int) -> tuple[Path, Path]:
    """State and data of a lab whose processes are gone."""
    directory, data = lab_directory(name), lab_module.DATA_ROOT / f"squall-lab-{name}-0123abcd"
    make_owned(directory, STATE, name, data=str(data), maker=1, started=-1)
    make_owned(data, DATA, name, state=str(directory))
    (directory / "id_ed25519").write_text("secret")
    (directory / "plan.json").write_text(json.dumps({"name": name, "data": str(data)}))
    (directory / "holder.json").write_text(json.dumps(GONE | holder))
    (data / "b1").mkdir()
    (data / "b1" / "file").write_text("x")
    return directory, data


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_bad_name_removes_nothing_and_is_named_in_the_error(name: str, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    for given in (name, str(precious) if name == "/etc" else name):
        for command in (lab_down, lab_directory, lambda given: lab_up(1, 1, name=given)):
            with pytest.raises(UsageError, match="is not the name of a lab"):
                command(given)
    assert precious.exists()
    assert state_root().exists()


def test_a_directory_without_our_mark_is_not_removed() -> None:
    foreign = state_root() / "mine"
    foreign.mkdir()
    (foreign / "precious").write_text("x")
    with pytest.raises(DirectoryNotOurs, match="bears no mark"):
        lab_down("mine")
    assert (foreign / "precious").exists()


def test_a_mark_that_is_a_link_or_of_another_lab_is_none(tmp_path: Path) -> None:
    directory, _ = made("other")
    link = state_root() / "linked"
    link.mkdir()
    (link / MARK).symlink_to(directory / MARK)
    copied = state_root() / "copied"
    copied.mkdir()
    (copied / MARK).write_text((directory / MARK).read_text())
    for name in ("linked", "copied"):
        with pytest.raises(DirectoryNotOurs):
            lab_down(name)


def test_a_link_in_place_of_a_lab_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    make_owned(elsewhere, STATE, "link", data=str(tmp_path / "data" / "squall-lab-link-0123abcd"), maker=1, started=-1)
    (elsewhere / "precious").write_text("x")
    (state_root() / "link").symlink_to(elsewhere)
    with pytest.raises(DirectoryNotOurs):
        lab_down("link")
    assert (elsewhere / "precious").exists()


@pytest.mark.parametrize("place", ["/", "/etc", "relative", "{tmp}/precious", "{tmp}/data/squall-lab-mine-0123abcd/.."])
def test_a_state_that_names_another_place_for_its_files_removes_nothing(place: str, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    directory, _ = made("mine")
    told = json.loads((directory / MARK).read_text()) | {"data": place.format(tmp=tmp_path)}
    (directory / MARK).write_text(json.dumps(told))
    with pytest.raises(DirectoryNotOurs):
        lab_down("mine")
    assert precious.exists()
    assert (directory / "id_ed25519").exists()


def test_links_within_the_files_are_removed_and_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    _, data = made("mine")
    (data / "b1" / "way-out").symlink_to(precious)
    (data / "way-out").symlink_to(precious)
    assert lab_down("mine")
    assert not data.exists()
    assert precious.exists()


def test_files_that_forbid_their_own_removal_are_removed() -> None:
    _, data = made("mine")
    (data / "b1").chmod(0o500)
    assert lab_down("mine")
    assert not data.exists()


KILLED_AT = """
import os, signal, sys
from pathlib import Path
from squall.harness.lab import lab
lab.DATA_ROOT = Path(sys.argv[2])
left = int(sys.argv[1])

def hook(event, arguments):
    global left
    if event in ("os.remove", "os.rmdir", "os.unlink"):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(hook)
lab.lab_down("mine")
"""


def test_whenever_lab_down_is_killed_the_next_command_finishes_it() -> None:
    """SIGKILL before each single removal in turn."""
    for removals in range(100):
        directory, data = made("mine")
        program = [sys.executable, "-c", KILLED_AT, str(removals), str(lab_module.DATA_ROOT)]
        status = subprocess.run(program, check=False, env=os.environ).returncode
        if removals % 2:
            lab_down("mine")
        else:
            lab_status()
        left = [path for path in (directory, data) if path.exists()]
        if left == [directory] and not any(directory.iterdir()):  # an empty directory has no mark; its name has
            lab_down("mine")
            left = [path for path in left if path.exists()]
        assert not left, f"killed at removal {removals}"
        if status == 0:
            assert removals >= 7, "it was killed before every single one"
            return
    pytest.fail("lab_down never got to its end")


def test_a_lab_up_that_was_killed_half_way_is_cleared_away() -> None:
    directory, data = made("mine")
    (directory / "holder.json").unlink()
    (directory / "plan.json").unlink()
    lab_status()
    assert not directory.exists()
    assert not data.exists()


def test_a_lab_that_is_just_being_brought_up_is_left_alone() -> None:
    directory, data = made("mine")
    (directory / "holder.json").unlink()
    started = lab_module.process_started(os.getpid())
    told = json.loads((directory / MARK).read_text()) | {"maker": os.getpid(), "started": started}
    (directory / MARK).write_text(json.dumps(told))
    lab_status()
    assert directory.exists()
    assert data.exists()


def test_files_of_a_lab_whose_state_was_lost_are_removed_unless_it_lives() -> None:
    _, data = made("lost")
    _, living = made("living")
    started = lab_module.process_started(os.getpid())
    (living / "holder.json").write_text(json.dumps({"holder": os.getpid(), "holder_started": started}))
    for name in ("lost", "living"):
        remove_owned(lab_directory(name), STATE, name)
    lab_status()
    assert not data.exists()
    assert living.exists()


class TestPrivateDirectory:
    def test_one_that_others_can_use_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "open").mkdir()
        (tmp_path / "open").chmod(0o755)
        with pytest.raises(DirectoryNotOurs, match="mode 0755"):
            private_directory(tmp_path / "open", "remedy")

    def test_a_link_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "there").mkdir(mode=0o700)
        (tmp_path / "link").symlink_to(tmp_path / "there")
        with pytest.raises(DirectoryNotOurs, match="symbolic link"):
            private_directory(tmp_path / "link", "remedy")

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
    def test_one_of_another_user_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "theirs").mkdir(mode=0o700)
        os.chown(tmp_path / "theirs", 12345, -1)
        with pytest.raises(DirectoryNotOurs, match=naming("user 12345")):
            private_directory(tmp_path / "theirs", "remedy")

    def test_it_is_made_if_it_is_not_there(self, tmp_path: Path) -> None:
        made = private_directory(tmp_path / "new" / "one", "remedy")
        assert made.stat().st_mode & 0o777 == 0o700
