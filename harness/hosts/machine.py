"""What this machine must have for a local lab: Linux, a few programs, and root or user namespaces.

Without root the lab is made inside a user namespace, which most kernels let everybody have; a distribution or a
container may forbid it. It is found out by making one, and what forbids it is named together with what allows it.
"""

from __future__ import annotations

import os
import platform
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

FORBIDDING_SETTINGS = (
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
    ("kernel/unprivileged_userns_clone", "0", "1"),
    ("user/max_user_namespaces", "0", "10000"),
)
"""Below /proc/sys: the file, the value that forbids user namespaces, one that allows them."""


def check_machine() -> None:
    """Raise UsageError unless this machine can hold a lab, saying what to do about it."""
    if sys.platform != "linux":
        raise UsageError("the local lab needs Linux", remedy="use a Linux machine or VM, or real hosts (--inventory)")
    missing = [tool for tool in NEEDED_TOOLS if shutil.which(tool, path=SYSTEM_PATH) is None]
    if missing:
        packages = " ".join(NEEDED_TOOLS[tool] for tool in missing)
        raise UsageError(
            f"the local lab needs {', '.join(missing)}", remedy=f"install: sudo apt-get install {packages}"
        )
    if os.geteuid() != 0:
        _check_without_root()


def _check_without_root() -> None:
    if platform.machine() not in SETGROUPS:
        raise UsageError(
            f"the local lab without root knows {' and '.join(SETGROUPS)}, not {platform.machine()}",
            remedy="run the same command with sudo",
        )
    refusal = why_no_user_namespaces()
    if refusal is not None:
        raise UsageError(
            f"the local lab needs root, or user namespaces, which this machine refuses: {refusal}",
            remedy=f"{what_allows_them()}; or run the same command with sudo; or list real hosts in an inventory "
            "(--inventory FILE)",
        )


def why_no_user_namespaces() -> str | None:
    """None if we may have all the namespaces that a lab is made of, or what is said against it."""
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
    """The setting to change, if one forbids user namespaces; in a container it is not ours to change."""
    for name, forbids, allows in FORBIDDING_SETTINGS:
        path = settings / name
        if path.exists() and path.read_text().strip() == forbids:
            return f"allow them: sudo sysctl -w {name.replace('/', '.')}={allows}"
    return "allow them; a container gets them with --privileged"
