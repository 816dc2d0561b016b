"""The entries of the gallery: files of suites/gallery, read and checked against the family of their system."""

from __future__ import annotations

from pathlib import Path

from squall.harness.errors import UsageError
from squall.harness.gallery.core.entry import BROKEN, TWIN, Entry
from squall.harness.gallery.core.steps import Hold, HoldWrites, Node, problems
from squall.harness.gallery.families import family_of
from squall.harness.scenario.suites import HERE, SHIPPED
from squall.harness.yaml_source import YamlSource, load_yaml, suggestion

FOLDER = "gallery"
ENDING = ".yaml"


def load_entry(path: Path) -> Entry:
    """Read an entry. Raises UsageError that names file, line, field and what is right."""
    source = load_yaml(path)
    entry = source.validated(Entry)
    if entry.name != path.stem:
        raise source.error(("name",), f"{entry.name!r} must be the file's name, {path.stem!r}")
    _refuse_what_does_not_fit(source, entry)
    return entry


def entries(here: Path = HERE) -> list[Entry]:
    """Every entry; those of `here`/gallery replace shipped ones of the same name."""
    found = {path.stem: path for root in (SHIPPED, here) for path in sorted((root / FOLDER).glob(f"*{ENDING}"))}
    return [load_entry(found[name]) for name in sorted(found)]


def chosen(names: list[str], here: Path = HERE) -> list[Entry]:
    """The entries of these names, all if there are none. Raises UsageError for an unknown name."""
    known = {entry.name: entry for entry in entries(here)}
    for name in names:
        if name not in known:
            raise UsageError(
                f"no entry of the gallery is named {name!r}{suggestion(name, list(known))}",
                remedy=f"known are {', '.join(known) or 'none'}",
            )
    return [known[name] for name in dict.fromkeys(names)] if names else list(known.values())


def _refuse_what_does_not_fit(source: YamlSource, entry: Entry) -> None:
    for at, problem in problems(entry.schedule):
        raise source.error(("schedule", at), problem)
    for at, step in enumerate(entry.schedule):
        where = ("schedule", at)
        if isinstance(step, Hold) and step.broker not in entry.cluster.proxied:
            raise source.error(where, f"broker {step.broker} has no proxy; name it under cluster.proxied")
        if isinstance(step, Node | HoldWrites) and step.broker > entry.cluster.brokers:
            raise source.error(where, f"there is no broker {step.broker}; brokers are 1 to {entry.cluster.brokers}")
        topic = getattr(step, "topic", None)
        if topic is not None and topic not in entry.cluster.topics:
            raise source.error(where, f"topic {topic!r} is not among cluster.topics")
    if entry.twin.system is not None and entry.twin.system.name != entry.system.name:
        raise source.error(("twin", "system", "name"), f"must be the entry's own, {entry.system.name}")
    _refuse_wrong_cells(source, entry)
    for place, problem in family_of(entry).problems(entry):
        raise source.error(place, problem)
    named = {getattr(step, "label", None) for step in entry.schedule}
    for at, label in enumerate(entry.twin.without):
        if label not in named:
            raise source.error(("twin", "without", at), f"{label!r} is the name of no step")
    if entry.arm(TWIN).runs_as(entry.arm(BROKEN)):
        raise source.error(("twin",), "is the same as the broken version: name what is different")


def _refuse_wrong_cells(source: YamlSource, entry: Entry) -> None:
    if entry.cells and entry.system.name != "kafka":
        raise source.error(("cells",), f"are for entries about Apache Kafka, and this one is about {entry.system.name}")
    clients = [one.name for one in (entry.client, entry.twin.client) if one is not None]
    seen: set[tuple[str, str]] = set()
    for at, cell in enumerate(entry.cells):
        if cell.client.name not in clients:
            known = ", ".join(dict.fromkeys(clients))
            problem = f"{cell.client.name!r} has no settings here; the entry and its twin have those of {known}"
            raise source.error(("cells", at, "client"), problem)
        if cell.client.settings:
            raise source.error(("cells", at, "client"), "has the settings of the entry's client; leave them out")
        place = cell.version, cell.client.words
        if place in seen:
            raise source.error(("cells", at), f"{cell.version} with {cell.client.words} is given twice")
        seen.add(place)
