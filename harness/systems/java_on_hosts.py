"""Whether hosts have the Java that the nodes of a system need."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from squall.harness.artifacts.java import version_in
from squall.harness.errors import UsageError
from squall.harness.hosts.ssh import Remote, on_all


def refuse_hosts_without_java(remotes: Sequence[Remote], oldest: int) -> None:
    """Raise one UsageError for all hosts without a Java of this version or a newer one."""
    found = on_all(list(remotes), partial(_why_no_java, oldest=oldest))
    remedy = f"install a Java {oldest} runtime there (Debian and Ubuntu: apt-get install openjdk-17-jre-headless)"
    wrong = [UsageError(f"{name}: java: {problem}", remedy=remedy) for name, problem in found.items() if problem]
    if wrong:
        raise UsageError.joined(wrong)


def _why_no_java(remote: Remote, oldest: int) -> str:
    """Return why a host's Java is of no use; nothing if it is."""
    ran = remote.run(["java", "-version"], timeout=20)
    found = version_in(ran.stderr + ran.stdout)
    if not ran.ok or found is None:
        return (ran.stderr.strip().splitlines() or ["there is none on PATH"])[-1]
    return "" if found >= oldest else f"is version {found}; {oldest} or newer is needed"
