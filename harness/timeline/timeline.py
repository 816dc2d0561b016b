"""`squall timeline RUN`: merge nodes' logs, faults and clients' observations in one order of time.

     12.481 s  fault   3-isolate isolate b2 (leader of events/3): injected; before: all 6 nodes hear each other
     12.530 s  fault   3-isolate isolate b2: proven: deaf to 5 of 5
     13.902 s  cluster b3 leads events-3, epoch 6
     13.911 s  b3      node 3 leads events-3 from epoch 6
     14.377 s  clients events-3 acknowledges again after 1.95 s, the longest wait, under 3-isolate
   ≈ 15.004 s  c1      controller 102 leads the quorum in epoch 2   (stamped 2026-11-21T23:11:45.004+00:00)

Times count from the start of the load. Everything with a time of the control process (faults, observations of the
cluster, clients) has that time. Lines of node logs are placed by their stamp and their host's clock reading
(`clock_offsets.py`, `log_alignment.py`); `≈` marks those whose stamp alone does not decide. Their order within one log
is always that of the log. The header states how far clocks may be off.

Every source is a stream in order of time, and they are merged as streams, so a log may be of any size.
"""

from __future__ import annotations

import heapq
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

from squall.harness.hosts.clock_offsets import load_clocks
from squall.harness.hosts.clocks import ClockReading
from squall.harness.timeline.clients import client_entries
from squall.harness.timeline.entry import Entry
from squall.harness.timeline.log_alignment import BEGINNING, LogAligner, disturbances, stamp_of
from squall.nemesis.options import FaultOptions
from squall.nemesis.schedule import Schedule
from squall.results.history.ill_formed import IllFormedHistory
from squall.results.history.manifest import Manifest
from squall.results.history.segments import ClusterObservation, FaultWindow, read_cluster, read_faults

SECOND = 1_000_000_000
NODES_FOLDER, SCHEDULE_FILE, TIMELINE_FILE = "nodes", "schedule.json", "timeline.txt"
IN_ORDER = attrgetter("time")


@dataclass(frozen=True)
class Excerpt:
    """The selected part of a timeline. Seconds from the start of the load; hosts by name; a pattern of the text."""

    since_s: float | None = None
    until_s: float | None = None
    hosts: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None

    def holds(self, entry: Entry) -> bool:
        if self.hosts and not set(self.hosts) & entry.hosts:
            return False
        return self.pattern is None or bool(self.pattern.search(entry.text) or self.pattern.search(entry.source))


@dataclass
class Timeline:
    """The timeline of one run, read from its directory."""

    directory: Path
    manifest: Manifest
    faults: list[FaultWindow] = field(init=False)
    clocks: dict[str, ClockReading] = field(init=False)
    options: dict[str, FaultOptions] = field(init=False)
    clients: list[Entry] = field(init=False, default_factory=list)
    damage: str = ""
    """Why clients are missing although there is a history."""

    @classmethod
    def of(cls, directory: Path) -> Timeline:
        """Read the run of a directory. Raises IllFormedHistory for a run whose manifest or faults cannot be read."""
        return cls(directory, Manifest.load(directory))

    def __post_init__(self) -> None:
        self.faults = read_faults(self.directory)
        self.clocks = load_clocks(self.directory)
        self.options = _options_of(self.directory)
        try:
            self.clients = sorted(client_entries(self.directory, self.faults), key=IN_ORDER)
        except IllFormedHistory as trouble:
            self.damage = str(trouble)

    @property
    def begins(self) -> int:
        """The time of second 0."""
        return self.manifest.load_started or 0

    @property
    def logs(self) -> dict[str, list[Path]]:
        """The fetched logs, by host."""
        folder = self.directory / NODES_FOLDER
        hosts = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
        return {host.name: sorted(host.glob("*.log")) for host in hosts}

    def lines(self, excerpt: Excerpt = Excerpt()) -> Iterator[str]:
        """Yield what to print: the remarks, then every selected entry."""
        yield from self.remarks()
        longest = max((len(name) for name in ("clients", "cluster", *self.logs)), default=0)
        for entry in self.entries(excerpt):
            yield entry.line(self.begins, longest)

    def remarks(self) -> Iterator[str]:
        """Yield which run this is, how exact its times are, and what has no place in it."""
        manifest = self.manifest
        yield f"{'run':<11}{manifest.scenario}, seed {manifest.seed}; second 0 is the start of the load"
        if manifest.load_started is None:
            yield f"{'':<11}no load was begun: times are those of the control process's clock"
        known = [host for host in self.logs if host in self.clocks]
        if known:
            uncertain = max(self.clocks[host].error for host in known)
            yield f"{'clocks':<11}those of {', '.join(known)} are known to {uncertain / 1e6:.2f} ms"
        for host, logs in self.logs.items():
            if not logs:
                yield f"{'log':<11}{host}: none was fetched"
            elif host not in self.clocks:
                yield f"{'log':<11}{host}: left out, its clock was not read; see {NODES_FOLDER}/{host}/{logs[0].name}"
        if self.damage:
            yield f"{'clients':<11}left out: {self.damage}"
        for window in self.faults:
            if window.injected is None:
                yield f"{'fault':<11}{window.id} {window.name}: did not take place; {window.trouble}"

    def entries(self, excerpt: Excerpt = Excerpt()) -> Iterator[Entry]:
        """Yield all selected entries, in order of time."""
        since = None if excerpt.since_s is None else self.begins + round(excerpt.since_s * SECOND)
        until = None if excerpt.until_s is None else self.begins + round(excerpt.until_s * SECOND)
        for entry in heapq.merge(*self._streams(), key=IN_ORDER):
            if until is not None and entry.time > until:
                return
            if (since is None or entry.time >= since) and excerpt.holds(entry):
                yield entry

    def _streams(self) -> Iterator[Iterable[Entry]]:
        """Yield every source separately, in order of time. Entries of one moment appear in the order of the sources."""
        yield sorted(fault_entries(self.faults), key=IN_ORDER)
        yield (_seen(one) for one in read_cluster(self.directory))
        for host, logs in self.logs.items():
            if host in self.clocks:
                reading = self.clocks[host]
                disturbed = disturbances(self.faults, self.options, host, reading)
                for log in logs:
                    yield log_entries(log, host, LogAligner(reading, disturbed))
        yield self.clients


def fault_entries(windows: Sequence[FaultWindow]) -> Iterator[Entry]:
    """Yield the phases of every fault that took place, each with its evidence."""
    for window in windows:
        if window.injected is None:
            continue
        hosts, name = frozenset(window.targets), f"{window.id} {window.fault} {window.summary}"
        before = f"; before: {window.before}" if window.before else ""
        yield Entry(window.injected, "fault", f"{name}: injected{before}", hosts)
        if window.took is not None:
            proof = f"proven: {window.during}" if window.took else f"NOT proven: {window.during}"
            unknown = "" if window.shown is not None else " (when was not recorded)"
            yield Entry(window.shown or window.injected, "fault", f"{name}: {proof}{unknown}", hosts)
        if window.healed is not None:
            yield Entry(window.healed, "fault", f"{name}: healed", hosts)
            if window.undone is not None:
                end = f"seen to be over: {window.after}" if window.undone else f"NOT seen to end: {window.trouble}"
                yield Entry(window.ended or window.healed, "fault", f"{name}: {end}", hosts)


def log_entries(log: Path, host: str, placing: LogAligner) -> Iterator[Entry]:
    """Yield the lines of a node's log in their order. Those before the first stamp are placed with it."""
    waiting: list[str] = []
    hosts = frozenset((host,))
    with log.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            stamp, text = stamp_of(line.rstrip("\n"))
            place = placing.place(stamp)
            if place.moment == BEGINNING:
                waiting.append(text)
                continue
            yield from (Entry(place.moment, host, early, hosts, certain=False) for early in waiting)
            waiting.clear()
            said = "" if place.certain or stamp is None else f"   (stamped {_stamp_in(line)})"
            yield Entry(place.moment, host, text + said, hosts, place.certain)


def _stamp_in(line: str) -> str:
    """Return the stamp of a line as it is written, or as much of the line as holds one."""
    return line.partition(" ")[0] if line[0].isdecimal() else line[:40].strip()


def _seen(one: ClusterObservation) -> Entry:
    """Describe an observation: `b3 leads events-3, epoch 6`."""
    where = f"{one.topic}-{one.partition}"
    epoch = f", epoch {one.epoch}" if one.epoch is not None else ""
    match one.kind:
        case "leader":
            text = f"{one.node or 'no node'} leads {where}{epoch}"
        case "controller":
            text = f"{one.node or 'no node'} is the active controller{epoch}"
        case "in_sync":
            text = f"in sync for {where}: {', '.join(one.nodes) or 'none'}"
        case "unclean":
            text = f"unclean election of {where}{epoch}: another log from offset {one.offset} on"
        case "watched":
            text = "the cluster was watched until now"
    return Entry(one.time, "cluster", text, frozenset(filter(None, (one.node, *one.nodes))))


def _options_of(directory: Path) -> dict[str, FaultOptions]:
    """Return the options of each fault of the schedule; nothing if the run has no readable schedule."""
    try:
        schedule = Schedule.from_json(json.loads((directory / SCHEDULE_FILE).read_text()))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
    return {fault.id: fault.options for fault in schedule.faults}


def save_timeline(directory: Path) -> Path:
    """Write the whole timeline as `timeline.txt` in the run's directory. Raises IllFormedHistory."""
    timeline, target = Timeline.of(directory), directory / TIMELINE_FILE
    draft = target.with_suffix(".txt.new")
    with draft.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in timeline.lines())
    draft.replace(target)
    return target
