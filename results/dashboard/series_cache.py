"""Keep change points and alarms of series from one build to the next, so that only series that changed are segmented.

What is kept is found by a hash of the series' values; the file as a whole belongs to one version of the code that
segments. It is written whole, beside the pages. Whatever is wrong with it, everything is worked out again. It holds
what the last build used and nothing else, so it is as large as the number of series makes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from squall.results.history.whole_file import write_whole
from squall.results.trends import alarms, change_points, ranks
from squall.results.trends.alarms import Alarm, alarm_of_the_last_night
from squall.results.trends.change_points import DEFAULT_RULES, ChangePoint, with_causes

DIGEST_BYTES: Final = 16
BYTES_MAX: Final = 64_000_000
"""A larger file is not one of ours."""


class _Derived(msgspec.Struct, frozen=True, array_like=True):
    """What was worked out of a series; its alarm only if that was wanted."""

    changes: tuple[ChangePoint, ...] = ()
    alarm: Alarm | None = None


@dataclass
class SeriesCache:
    """What is known of series, by hash. `used` is what this build needs, and what is kept."""

    known: dict[str, _Derived] = field(default_factory=dict)
    used: dict[str, _Derived] = field(default_factory=dict)
    computed: int = 0

    def change_points(self, values: Sequence[float], canary: Sequence[float] | None = None) -> tuple[ChangePoint, ...]:
        """Return the change points of a series with one value a night, as `trends.change_points` does."""
        found = self._derived("changes", values).changes
        return with_causes(found, values, canary) if found else found

    def alarm_of_the_last_night(self, values: Sequence[float], canary: Sequence[float] | None = None) -> Alarm | None:
        """Return the alarm that the last night raises, as `trends.alarms` does."""
        found = self._derived("alarm", values).alarm
        return found if found is None or canary is None else alarm_of_the_last_night(values, canary)

    def _derived(self, what: str, values: Sequence[float]) -> _Derived:
        series = np.asarray(values, dtype=np.float64)
        key = blake2b(what.encode() + series.tobytes(), digest_size=DIGEST_BYTES).hexdigest()
        found = self.used.get(key) or self.known.get(key)
        if found is None:
            self.computed += 1
            if what == "changes":
                found = _Derived(changes=change_points.change_points(series))
            else:
                found = _Derived(alarm=alarm_of_the_last_night(series))
        self.used[key] = found
        return found


def load_cache(path: Path) -> SeriesCache:
    """Load what an earlier build left; nothing if it is not there, damaged, or of other code."""
    try:
        if path.stat().st_size > BYTES_MAX:
            return SeriesCache()
        content = path.read_bytes()
        digest, payload = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
        if digest != _digest(payload):
            return SeriesCache()
        return SeriesCache(msgspec.msgpack.decode(payload, type=dict[str, _Derived]))
    except (OSError, msgspec.DecodeError):
        return SeriesCache()


def save_cache(path: Path, found: SeriesCache) -> None:
    """Save what this build used, unless that lies there already. Raises OSError."""
    if found.used != found.known:
        payload = msgspec.msgpack.encode(found.used, order="sorted")
        write_whole(path, _digest(payload) + payload, durably=False)  # it can be made again


def _digest(payload: bytes) -> bytes:
    return blake2b(_code() + payload, digest_size=DIGEST_BYTES).digest()


@cache
def _code() -> bytes:
    """Identify what segments series: its code, its rules, and the library that it computes with."""
    digest = blake2b(repr((DEFAULT_RULES, np.__version__)).encode())
    for module in (alarms, change_points, ranks):
        digest.update(Path(str(module.__file__)).read_bytes())
    digest.update(Path(__file__).read_bytes())
    return digest.digest()
