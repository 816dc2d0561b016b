"""Take a lab down only while no run uses it: `squall lab down` locks its hosts first.

Hosts that do not respond cannot be locked, and no run can be using them: they are no reason to keep a lab.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from squall.harness.errors import UsageError
from squall.harness.hosts.host_locks import HeldLock, HostLocks, HostsInUse, Say
from squall.harness.lab.lab import find_lab


@contextlib.contextmanager
def locked_for_its_end(name: str, *, force: bool, say: Say) -> Iterator[None]:
    """Hold the lock of a lab's hosts, which no longer exist afterwards.

    Raises:
        HostsInUse: a run is under way on it, and this is not forced.
    """
    lab = find_lab(name)
    if lab is None or force:
        yield
        return
    lock: HeldLock | None = None
    with HostLocks(f"squall lab down --name {name}", wait=None, say=say) as locks:
        try:
            lock = asyncio.run(locks.take(lab.inventory(), lab.network, ""))
        except HostsInUse as used:
            owner = used.owner
            raise HostsInUse(
                owner,
                remedy=f"wait until it ends, or end it: kill -TERM {owner.pid}; "
                f"or stop its lab: squall lab down --name {name} --force",
            ) from None
        except UsageError as trouble:
            say(f"{'lock':<11}not every host answers: {trouble.problem}")
        if lock is not None:
            lock.stop()
        yield
        if lock is not None:
            locks.release(lock, hosts_remain=False)
