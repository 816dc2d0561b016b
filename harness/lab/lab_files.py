"""Write what a lab needs on disk: keys, known_hosts, every host's own /etc, /root, /var, and the plan.

`prepare` writes it all; `supervisor.py` reads `plan.json` and assembles hosts' roots from it. Host keys and the
client's key are ed25519, made here without ssh-keygen, and every host's key is in known_hosts before its sshd starts.
/etc is made once and copied; its large parts are shown read-only from the machine instead.
"""

from __future__ import annotations

import grp
import json
import os
import pwd
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from squall.harness.hosts.libraries import libraries_root
from squall.harness.scenario.inventory import HostSpec
from squall.harness.scenario.lab_topology import Racks
from squall.nemesis.agent.core.programs import STARTER

NETWORK = "10.77"
PREFIX_LENGTH = 24
CONTROL_ADDRESS = f"{NETWORK}.0.1"
LAB_USER = "squall"
LAB_USER_ID = 1000

# The machine's /etc as far as programs on a host need it: these files as copies, these directories as read-only views
# (copying their hundreds of links for every host would take longer than all the rest). Accounts, names and sshd's own
# files are newly written.
SHARED_ETC_FILES = (
    "bash.bashrc", "debian_version", "environment", "inputrc", "ld.so.cache", "ld.so.conf", "localtime", "login.defs",
    "lsb-release", "magic", "mime.types", "nsswitch.conf", "os-release", "pam.conf", "profile", "protocols", "rpc",
    "services", "shells", "sudo.conf", "timezone", "xattr.conf",
)  # fmt: skip
SHARED_ETC_DIRECTORIES = (
    "alternatives", "iproute2", "java-*", "ld.so.conf.d", "pam.d", "python3*", "security", "terminfo",
)  # fmt: skip

SSHD_CONFIG = """\
# Written by squall for a lab host.
Port 22
HostKey /etc/ssh/ssh_host_ed25519_key
AuthorizedKeysFile .ssh/authorized_keys
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
UseDNS no
PrintMotd no
MaxStartups 200:30:400
MaxSessions 200
PidFile none
Subsystem sftp internal-sftp
"""


def host_address(number: int, rack: str | None = None) -> str:
    """Return a host's address. Each rack is a separate network; without racks there is one, numbered 0."""
    return f"{_subnet(rack)}.{number}"


def _subnet(rack: str | None) -> str:
    return f"{NETWORK}.{rack.removeprefix('r') if rack else 0}"


@dataclass(frozen=True)
class LabPlan:
    """The plan of a lab: its hosts and where its files lie."""

    name: str
    directory: Path
    """Keys, logs and state."""
    data: Path
    """The hosts' files."""
    hosts: tuple[HostSpec, ...]
    racks: Racks
    rootless: bool
    read_only: tuple[str, ...] = ()
    """Further directories of this machine that hosts see."""
    sshd_config: str = SSHD_CONFIG


def prepare(plan: LabPlan) -> None:
    """Write everything the supervisor needs, and every host's key into known_hosts. Both directories exist."""
    directory, data = plan.directory, plan.data
    (directory / "root").mkdir()
    client_key = make_key(directory / "id_ed25519")
    template = data / ".etc"
    _make_etc(template, plan)
    known_hosts = ""
    for host in plan.hosts:
        key = _make_host_files(data / host.name, template, host, client_key, rootless=plan.rootless)
        known_hosts += f"{host.address} {key}\n"
    (directory / "known_hosts").write_text(known_hosts)
    write_json(directory / "plan.json", _as_json(plan))


def sockets_of(directory: Path) -> Path:
    """Return where a lab without root provides sockets (sockets.py)."""
    return directory / "sockets"


def _as_json(plan: LabPlan) -> dict[str, Any]:
    racks: tuple[str | None, ...] = plan.racks.names or (None,)
    return {
        "name": plan.name,
        "data": str(plan.data),
        "mount_point": str(plan.directory / "root"),
        "rootless": plan.rootless,
        "sockets": str(sockets_of(plan.directory)),
        "control_address": CONTROL_ADDRESS,
        "bridges": {_bridge(rack): f"{_subnet(rack)}.1" for rack in racks},
        "prefix_length": PREFIX_LENGTH,
        "racks": plan.racks.model_dump(mode="json"),
        "links": list(_links(plan.racks)),
        "agent_starter": str(STARTER),
        "read_only": [*_shared_etc_directories(), *_interpreter_directories(), str(libraries_root()), *plan.read_only],
        "hosts": [
            {
                "name": host.name,
                "address": host.address,
                "groups": list(host.groups),
                "rack": host.rack,
                "bridge": _bridge(host.rack),
                "gateway": f"{_subnet(host.rack)}.1",
                "directory": str(plan.data / host.name),
                "python": host.python,
            }
            for host in plan.hosts
        ],
    }


def _bridge(rack: str | None) -> str:
    return f"br{rack.removeprefix('r') if rack else 0}"


def _links(racks: Racks) -> Iterator[dict[str, Any]]:
    """Yield both directions between racks with a link profile, in the format of nemesis/agent/link/link_switch.py."""
    for pair in racks.pairs():
        profile = racks.profile(*pair)
        if profile is None:
            continue
        shape = {
            "delay_s": profile.latency,
            "jitter_s": profile.jitter,
            "distribution": profile.distribution,
            "loss": profile.loss,
            "rate": profile.bandwidth or 0,
        }
        for source, target in (pair, pair[::-1]):
            yield {"from": f"{_subnet(source)}.0/24", "to": f"{_subnet(target)}.0/24", "shape": shape}


def _shared_etc_directories() -> list[str]:
    found = (path for pattern in SHARED_ETC_DIRECTORIES for path in Path("/etc").glob(pattern))
    return sorted(str(path) for path in found if path.is_dir() and not path.is_symlink())


def _interpreter_directories() -> list[str]:
    """Return where this interpreter lives, unless a host sees it under /usr or /opt anyway."""
    prefix = str(Path(sys.base_prefix).resolve())
    return [] if prefix.startswith(("/usr", "/opt")) else [prefix]


def make_key(path: Path) -> str:
    """Write a new ed25519 private key (0600). Return its public half in OpenSSH's one-line form."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    path.touch(mode=0o600)
    path.write_bytes(private)
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return public.decode()


def _make_etc(template: Path, plan: LabPlan) -> None:
    """Make /etc as all hosts have it; made once and copied."""
    template.mkdir(mode=0o755)
    for name in SHARED_ETC_FILES:
        if Path("/etc", name).is_file():
            shutil.copy2(Path("/etc", name), template / name)
    _write_accounts(template, rootless=plan.rootless)
    names = "".join(f"{host.address}\t{host.name}\n" for host in plan.hosts)
    (template / "hosts").write_text(f"127.0.0.1\tlocalhost\n{CONTROL_ADDRESS}\tcontrol\n{names}")
    (template / "ssh").mkdir()
    (template / "ssh/sshd_config").write_text(plan.sshd_config)
    (template / "mtab").symlink_to("../proc/self/mounts")


def _write_accounts(template: Path, *, rootless: bool) -> None:
    """Write root, an ordinary user with sudo, and the system accounts that programs look up by name.

    A lab without root has one user, who is root there; sshd's account must have the same id.
    """
    sshd = next((account for account in pwd.getpwall() if account.pw_name == "sshd"), None)
    sshd_ids = "0:0" if rootless else f"{sshd.pw_uid if sshd else 105}:65534"
    ordinary = "" if rootless else f"{LAB_USER}:x:{LAB_USER_ID}:{LAB_USER_ID}::/home/{LAB_USER}:/bin/bash\n"
    (template / "passwd").write_text(
        "root:x:0:0:root:/root:/bin/bash\n"
        "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
        f"sshd:x:{sshd_ids}::/run/sshd:/usr/sbin/nologin\n"
        f"{ordinary}"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    )
    system_groups = "".join(
        f"{group.gr_name}:x:{group.gr_gid}:\n" for group in grp.getgrall() if group.gr_gid < LAB_USER_ID
    )
    (template / "group").write_text(f"{system_groups}{LAB_USER}:x:{LAB_USER_ID}:\nnogroup:x:65534:\n")
    # `*` permits keys but no password; `!` would read as a locked account.
    shadow = template / "shadow"
    shadow.touch(mode=0o600)
    shadow.write_text("".join(f"{who}:*:19000:0:99999:7:::\n" for who in ("root", "sshd", LAB_USER, "nobody")))
    sudoers = template / "sudoers"
    sudoers.write_text(f"Defaults env_reset\nroot ALL=(ALL:ALL) ALL\n{LAB_USER} ALL=(ALL:ALL) NOPASSWD: ALL\n")
    sudoers.chmod(0o440)


def _make_host_files(directory: Path, template: Path, host: HostSpec, client_key: str, *, rootless: bool) -> str:
    """Make the host's own directories on disk, with its key. Return the key's public half."""
    directory.mkdir(mode=0o755)
    shutil.copytree(template, directory / "etc", symlinks=True)
    for name in ("root/.ssh", f"home/{LAB_USER}/.ssh", "srv", "var/log", "var/lib", "var/cache", "var/tmp"):
        (directory / name).mkdir(parents=True)
    (directory / "root").chmod(0o700)
    (directory / "var/tmp").chmod(0o1777)
    (directory / "var/run").symlink_to("/run")
    for home in ("root", f"home/{LAB_USER}"):
        (directory / home / ".ssh/authorized_keys").write_text(client_key + "\n")
    if not rootless:
        for path in (directory / "home" / LAB_USER, *(directory / "home" / LAB_USER).rglob("*")):
            os.chown(path, LAB_USER_ID, LAB_USER_ID)
    (directory / "etc/hostname").write_text(host.name + "\n")
    return make_key(directory / "etc/ssh/ssh_host_ed25519_key")


def write_json(path: Path, value: object) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(value, indent=1))
    temporary.rename(path)
