"""The registry knows every fault, the verbs each needs, and which of them hosts and simulation offer."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest
from pydantic import TypeAdapter

from squall.harness.simulation.world.world import ClusterShape, SimWorld
from squall.nemesis import options
from squall.nemesis.core.apis import API_KEYS, known_api
from squall.nemesis.entries import NemesisEntry
from squall.nemesis.options import FaultOptions
from squall.nemesis.registry import FAULT_VERBS, FAULTS, HOSTS_ONLY, ON_HOSTS, missing_verbs, needed_verbs
from squall.nodes.protocol.messages import ApiKey
from tests.facts import naming

ENTRY: TypeAdapter[NemesisEntry] = TypeAdapter(NemesisEntry)
AGENT = Path(__file__).resolve().parents[2] / "nemesis" / "agent"


def test_every_fault_of_the_vocabulary_can_be_built() -> None:
    modules = [import_module(f"{options.__name__}.{one.name}") for one in iter_modules(options.__path__)]
    defined = {one for module in modules for one in vars(module).values() if isinstance(one, type)}
    named = {one for one in defined if issubclass(one, FaultOptions) and "fault" in one.model_fields}
    assert set(FAULTS) == named


def test_simulated_hosts_offer_every_verb_but_those_of_hosts_only() -> None:
    world = SimWorld(ClusterShape(1, 1), 1, topics={})
    for host in world.hosts.values():
        assert [verb for verb in FAULT_VERBS if not host.offers(verb)] == [
            verb for verb in FAULT_VERBS if verb in HOSTS_ONLY
        ]


def test_what_only_hosts_offer_is_offered_by_hosts() -> None:
    assert set(HOSTS_ONLY) <= set(ON_HOSTS)


@pytest.mark.parametrize("verb", FAULT_VERBS)
def test_the_agent_on_hosts_offers_what_the_registry_says(verb: str) -> None:
    sources = "".join(file.read_text() for file in sorted(AGENT.rglob("*.py")))
    assert (verb in ON_HOSTS) == bool(re.search(rf'"{re.escape(verb)}"', sources))


def test_a_fault_is_refused_by_the_verb_that_hosts_lack() -> None:
    hold = ENTRY.validate_python({"fault": "rpc-hold", "api": "Fetch", "at": 1})
    kill = ENTRY.validate_python({"fault": "kill", "target": "b1", "at": 1})
    assert missing_verbs(hold, offered=("proc.kill",)) == ("rpc.hold",)  # type: ignore[arg-type]
    assert missing_verbs(kill, offered=("proc.kill",)) == ()  # type: ignore[arg-type]


def test_what_a_schedule_needs_of_hosts_is_named_once() -> None:
    hold = ENTRY.validate_python({"fault": "rpc-hold", "api": "Fetch", "at": 1})
    lagging = ENTRY.validate_python({"fault": "leader-kill-lagging", "target": "events/0", "at": 1})
    assert needed_verbs([hold, lagging, hold]) == ("rpc.hold", "proc.kill", "proc.pause")  # type: ignore[list-item]


def test_the_names_of_requests_are_those_of_the_protocol() -> None:
    for name, key in API_KEYS.items():
        spelt = re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper()
        if spelt in ApiKey.__members__:
            assert ApiKey[spelt] == key
    of_simulations_only = {ApiKey.APPEND_ENTRIES}
    missing = {int(key) for key in ApiKey} - of_simulations_only - set(API_KEYS.values())
    assert not missing, "a request that our nodes know and no fault can pick out"


def test_an_unknown_request_finds_the_nearest() -> None:
    assert known_api("Fetch") == "Fetch"
    with pytest.raises(ValueError, match=naming("BrokerHeartbeat")):
        known_api("BrokerHeartbeats")
