"""Collects for the agent the network verbs other than cutting and slowing: fault verbs and probes.

`agent.py` offers both: `faults` to inject and heal, `probes` to call.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from squall.nemesis.agent.core.arguments import text
from squall.nemesis.agent.core.fault_workers import FaultWorkerProbe, FaultWorkers
from squall.nemesis.agent.core.journal import Journal
from squall.nemesis.agent.core.manager import FaultVerb
from squall.nemesis.agent.core.processes import Processes
from squall.nemesis.agent.core.verbs import MESSAGE_FAULTS
from squall.nemesis.agent.link.link_rules import QueueRules
from squall.nemesis.agent.link.link_shaping import Emulators, ShapeLinks
from squall.nemesis.agent.net.connections import probe_connections
from squall.nemesis.agent.net.interface_down import InterfaceDown
from squall.nemesis.agent.net.net_flood import Flood, probe_traffic
from squall.nemesis.agent.net.net_reset import ResetConnections
from squall.nemesis.agent.net.net_storm import Storm
from squall.nemesis.agent.net.network import Network
from squall.nemesis.agent.net.port_cuts import DropPort
from squall.nemesis.agent.probe.stream_probe import probe_exchange
from squall.nemesis.agent.probe.train_probe import TrainProbe
from squall.nemesis.agent.rpc.rpc import Cut, Hold, MessageFaults, probe
from squall.nemesis.agent.rpc.rpc_treatments import TreatStream

Arguments = dict[str, Any]


class NetworkVerbs:
    """The network verbs of one host."""

    def __init__(
        self, state: Path, journal: Journal, network: Network, processes: Processes, trains: TrainProbe
    ) -> None:
        self.queue_rules = QueueRules(network.control_port)
        shaping = ShapeLinks(self.queue_rules, Emulators(state))
        self._journal = journal
        self._messages = MessageFaults(state, network.control_port, processes)
        workers = FaultWorkers(state)
        self._port_cuts = DropPort(network)
        self._interface = InterfaceDown(workers)
        self._resets = ResetConnections(workers, network.control_port)
        self.faults: dict[str, FaultVerb] = {
            "net.shape": shaping,
            "net.spoil": shaping,
            "net.drop_port": self._port_cuts,
            "net.reset": self._resets,
            "net.storm": Storm(workers),
            "net.flood": Flood(workers),
            "net.interface_down": self._interface,
            "rpc.hold": Hold(self._messages),
            "rpc.cut": Cut(self._messages),
            "rpc.stream": TreatStream(self._messages),
        }
        self.probes: dict[str, Callable[[Arguments], Arguments]] = {
            "probe.throw": trains.throw,
            "probe.caught": trains.caught,
            "probe.connections": probe_connections,
            "probe.rpc": self.probe_rpc,
            "probe.exchange": probe_exchange,
            "probe.traffic": probe_traffic,
            "probe.errand": FaultWorkerProbe(workers, journal).answer,
        }

    def probe_rpc(self, arguments: Arguments) -> Arguments:
        """Report what such a fault has done to messages or streams."""
        id = text(arguments, "id")
        return probe(self._messages, id, self._journal.find(id))

    def unable(self) -> dict[str, str]:
        """Verbs that this host cannot carry out, and why."""
        driver, cannot_queue = self.queue_rules.driver()
        reasons = {
            "net.shape": None if driver else cannot_queue,
            "net.spoil": None if driver else cannot_queue,
            "net.drop_port": self._port_cuts.trouble_with_host(),
            "net.reset": self._resets.trouble_with_host(),
            "net.interface_down": self._interface.trouble_with_host(),
            **dict.fromkeys(MESSAGE_FAULTS, self._messages.trouble_with_host()),
        }
        return {verb: reason for verb, reason in reasons.items() if reason}
