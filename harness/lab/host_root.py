"""Build the file tree of a lab host, partly from the machine and partly from the host's own directory.

It is built bubblewrap-style on a tmpfs: the machine's /usr (and the interpreter's own prefix, when that lies elsewhere)
read-only; /etc, /root, /home, /srv and /var from the host's directory on disk; fresh /proc, /sys, /dev, /run and /tmp.
Where /bin, /lib … are links into /usr on the machine, they are the same links on the host. What controls the whole
machine is read-only. `/run/squall-lab-host` marks the host. Standard library only: it runs in every host's init.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from squall.harness.hosts.kernel import (
    KERNEL,
    MS_BIND,
    MS_NOATIME,
    MS_NODEV,
    MS_NODIRATIME,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_RDONLY,
    MS_REC,
    MS_RELATIME,
    MS_REMOUNT,
    ST_RELATIME,
)

DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "fuse", "net/tun", "loop-control")
LOOP_DEVICES = tuple(f"loop{number}" for number in range(8))
SHARED_READ_ONLY = ("usr", "opt", "nix", "gnu")
ROOT_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
PRIVATE_ON_DISK = ("etc", "var", "root", "home", "srv")
LAB_HOST_MARKER = "/run/squall-lab-host"


def build_root(plan: dict[str, Any], host: dict[str, Any]) -> None:
    """Assemble the host's file tree on a tmpfs and make it this namespace's root."""
    root = Path(plan["mount_point"])
    KERNEL.mount("none", "/", flags=MS_REC | MS_PRIVATE)
    KERNEL.mount("tmpfs", str(root), "tmpfs", MS_NOSUID, "mode=755,size=64m")
    bind_system(root)
    for name in PRIVATE_ON_DISK:
        bind(f"{host['directory']}/{name}", root / name)
    for directory in plan["read_only"]:
        bind(directory, root / directory.lstrip("/"), read_only=True)
    mount_new(root / "run", "tmpfs", "mode=755,size=64m")
    mount_new(root / "tmp", "tmpfs", "mode=1777,size=512m")
    (root / "run/sshd").mkdir(mode=0o755)
    (root / LAB_HOST_MARKER.lstrip("/")).write_text(host["name"] + "\n")
    make_devices(root / "dev", rootless=plan["rootless"])
    mount_kernel_views(root)
    os.chdir(root)
    KERNEL.pivot_root(".", ".")  # the old root is now stacked over the new one …
    KERNEL.unmount(".")  # … and this takes it off
    os.chdir("/")


def bind_system(root: Path) -> None:
    """Bind the machine's programs: read-only trees, and the links of a merged /usr unchanged."""
    for name in SHARED_READ_ONLY:
        if Path("/", name).is_dir():
            bind(f"/{name}", root / name, read_only=True)
    for name in ROOT_LINKS:
        there = Path("/", name)
        if there.is_symlink():
            (root / name).symlink_to(there.readlink())
        elif there.is_dir():
            bind(f"/{name}", root / name, read_only=True)


def bind(source: str, target: Path, *, read_only: bool = False) -> None:
    target.mkdir(parents=True, exist_ok=True)
    KERNEL.mount(source, str(target), flags=MS_BIND | MS_REC)
    if read_only:
        KERNEL.mount("none", str(target), flags=MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NODEV | _flags_of(target))


def _flags_of(target: Path) -> int:
    """Return the mount flags that already restrict the target; root in a user namespace must not remove them."""
    given = os.statvfs(target).f_flag
    kept = given & (MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME | MS_NODIRATIME)
    return kept | (MS_RELATIME if given & ST_RELATIME else 0)


def mount_new(target: Path, kind: str, options: str = "", flags: int = MS_NOSUID | MS_NODEV) -> None:
    target.mkdir(parents=True, exist_ok=True)
    KERNEL.mount(kind, str(target), kind, flags, options)


def make_devices(dev: Path, *, rootless: bool) -> None:
    """Make a /dev with the harmless devices and, useful to root only, the loop devices; without the machine's disks."""
    mount_new(dev, "tmpfs", "mode=755,size=1m", MS_NOSUID)
    for name in DEVICES if rootless else (*DEVICES, *LOOP_DEVICES):
        if Path("/dev", name).exists():
            (dev / name).parent.mkdir(exist_ok=True)
            (dev / name).touch()
            KERNEL.mount(f"/dev/{name}", str(dev / name), flags=MS_BIND)
    group = "" if rootless else ",gid=5"  # a user namespace of one user has no other group
    mount_new(dev / "pts", "devpts", f"newinstance,ptmxmode=0666,mode=620{group}", MS_NOSUID)
    mount_new(dev / "shm", "tmpfs", "mode=1777,size=256m")
    links = {"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0"}
    links |= {"stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}
    for name, target in links.items():
        (dev / name).symlink_to(target)


def mount_kernel_views(root: Path) -> None:
    """Mount /proc and /sys of this host's namespaces, with the controls of the whole machine read-only."""
    mount_new(root / "proc", "proc")
    for name in ("sys", "sysrq-trigger"):
        path = root / "proc" / name
        if path.exists():
            KERNEL.mount(str(path), str(path), flags=MS_BIND)
            KERNEL.mount("none", str(path), flags=MS_REMOUNT | MS_BIND | MS_RDONLY)
    network = str(root / "proc/sys/net")
    KERNEL.mount(network, network, flags=MS_BIND)
    KERNEL.mount("none", network, flags=MS_REMOUNT | MS_BIND)
    mount_new(root / "sys", "sysfs", flags=MS_RDONLY | MS_NOSUID | MS_NODEV)
