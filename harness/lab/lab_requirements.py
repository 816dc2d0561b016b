"""Check what this machine needs for a local lab: Linux, a few programs, and root or user namespaces.

Without root the lab is made inside a user namespace, which most kernels permit to every user; a distribution or a
container may forbid it. The check makes one; if that fails, it names what forbids it and what would allow it. Where it
stays forbidden an ordinary user can have a *reduced* lab, whose hosts are plain processes (`reduced_lab.py`).
"""

from __future__ import annotations

import os
import platform
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

from squall.harness.errors import UsageError
from squall.harness.hosts.kernel import SETGROUPS

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NEEDED_TOOLS = {"sshd": "openssh-server", "ip": "iproute2", "nft": "nftables", "nsenter": "util-linux"}
TRY = ["unshare", "--user", "--map-root-user", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--mount-proc"]
TRY_SECONDS = 10.0
CAP_SYS_ADMIN = 21
NO_SHELLS = ("false", "nologin")
IN_A_CONTAINER = "a container gets namespaces with --privileged"

FORBIDDING_SETTINGS = (
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
    ("kernel/unprivileged_userns_clone", "0", "1"),
    ("user/max_user_namespaces", "0", "10000"),
)
"""Files below /proc/sys, each with a value that forbids user namespaces and a value that allows them."""


def check_machine(*, reduced: bool = False) -> str:
    """Return why this machine can hold only a reduced lab, or is to (`reduced`); empty for a complete one.

    Raises UsageError, with a remedy, where it can hold none.
    """
    if sys.platform != "linux":
        raise UsageError("the local lab needs Linux", remedy="use a Linux machine or VM, or real hosts (--inventory)")
    why = "requested by --reduced" if reduced else _why_reduced()
    missing = [tool for tool in NEEDED_TOOLS if shutil.which(tool, path=SYSTEM_PATH) is None]
    if why:
        refuse_unfit_user()
        missing = [tool for tool in missing if tool == "sshd"]
    if missing:
        packages = " ".join(NEEDED_TOOLS[tool] for tool in missing)
        raise UsageError(
            f"the local lab needs {', '.join(missing)}", remedy=f"install: sudo apt-get install {packages}"
        )
    return why


def _why_reduced() -> str:
    """Return why this user, or any user here, can have no namespaces, and the remedy; empty if the user can."""
    if os.geteuid() == 0:
        return "" if may_make_namespaces() else f"root may make no namespaces here; {IN_A_CONTAINER}"
    if platform.machine() not in SETGROUPS:
        return f"without root a complete lab knows {' and '.join(SETGROUPS)}, not {platform.machine()}; use sudo"
    refusal = why_no_user_namespaces()
    if refusal is None:
        return ""
    return f"this machine refuses user namespaces: {refusal}; {what_allows_them()}, or use sudo"


def may_make_namespaces(status: Path = Path("/proc/self/status")) -> bool:
    """Return whether root here may make namespaces: in a container it seldom has all rights."""
    effective = next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("CapEff:"))
    return bool(int(effective, 16) >> CAP_SYS_ADMIN & 1)


def refuse_unfit_user() -> None:
    """Raise UsageError for a user that a reduced lab's sshd could not or must not let in."""
    remedy = "run squall as an ordinary user with a login shell"
    if os.geteuid() == 0:
        why = "root may make no namespaces here, and a reduced lab's hosts would be root on the machine itself"
        if may_make_namespaces():
            why = "a reduced lab's hosts would be root on the machine itself"
            remedy = f"leave --reduced out for a complete lab, or {remedy}"
        raise UsageError(why, remedy=f"{remedy}; {IN_A_CONTAINER}")
    try:
        shell = pwd.getpwuid(os.geteuid()).pw_shell or "/bin/sh"
    except KeyError:
        raise UsageError(
            f"user {os.geteuid()} has no name, and sshd lets in only users that have one",
            remedy=f"give it a line in /etc/passwd, or {remedy}",
        ) from None
    if not os.access(shell, os.X_OK) or Path(shell).name in NO_SHELLS:
        raise UsageError(f"the user's login shell, {shell}, does not allow logins", remedy=remedy)


def why_no_user_namespaces() -> str | None:
    """Return None if this user may make all namespaces of a lab, else the reason why not."""
    try:
        done = subprocess.run(
            [*TRY, "true"],
            env=os.environ | {"PATH": SYSTEM_PATH, "LC_ALL": "C"},
            capture_output=True,
            text=True,
            timeout=TRY_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as trouble:
        return str(trouble)
    return None if done.returncode == 0 else done.stderr.strip() or f"unshare ended with status {done.returncode}"


def what_allows_them(settings: Path = Path("/proc/sys")) -> str:
    """Return the setting to change if one forbids user namespaces; inside a container it cannot be changed."""
    for name, forbids, allows in FORBIDDING_SETTINGS:
        path = settings / name
        if path.exists() and path.read_text().strip() == forbids:
            return f"allow them: sudo sysctl -w {name.replace('/', '.')}={allows}"
    return "allow them; a container gets them with --privileged"
