"""`squall timeline RUN`: print the timeline of a stored run, or a part of it (timeline.py)."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from squall.harness.cli.run.check import run_directory
from squall.harness.errors import UsageError
from squall.harness.timeline.timeline import Excerpt, Timeline
from squall.harness.yaml_source import suggestion
from squall.nemesis.core.durations import parse_seconds
from squall.results.history.ill_formed import IllFormedHistory
from squall.results.verdict.verdict import EXIT_CODES


def show_timeline(
    name: Path,
    *,
    since: str | None = None,
    until: str | None = None,
    hosts: tuple[str, ...] = (),
    grep: str | None = None,
) -> int:
    """Print a timeline. Raises UsageError for an invalid selection."""
    excerpt = excerpt_of(since, until, hosts, grep)
    try:
        timeline = Timeline.of(run_directory(name))
        _refuse_strangers(hosts, timeline)
        for line in timeline.lines(excerpt):
            sys.stdout.write(f"{line}\n")
    except IllFormedHistory as trouble:
        sys.stdout.write(f"UNKNOWN   {trouble}\n")
        return EXIT_CODES["unknown"]
    return 0


def excerpt_of(since: str | None, until: str | None, hosts: tuple[str, ...], grep: str | None) -> Excerpt:
    """Return the selected part. Raises UsageError."""
    since_s, until_s = _seconds("--from", since), _seconds("--to", until)
    if since_s is not None and until_s is not None and since_s > until_s:
        raise UsageError(f"--from {since} is later than --to {until}", remedy="exchange them")
    try:
        pattern = re.compile(grep) if grep is not None else None
    except re.error as wrong:
        raise UsageError(
            f"--grep {grep!r} is not a regular expression: {wrong}", remedy="put a backslash before what is meant"
        ) from None
    return Excerpt(since_s, until_s, hosts, pattern)


def _seconds(option: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return float(str(parse_seconds(text)))
    except ValueError:
        raise UsageError(f"{option} {text!r} is not a time; write 500ms, 10s, 2m or -3s") from None


def _refuse_strangers(hosts: tuple[str, ...], timeline: Timeline) -> None:
    """Raise UsageError for a host that was not part of the run."""
    known = {host.name for host in timeline.manifest.hosts} | set(timeline.logs)
    known |= {name for window in timeline.faults for name in window.targets}
    for host in hosts:
        if host not in known:
            raise UsageError(f"--host {host}: no host of that name had a part in the run{suggestion(host, known)}")
