"""The verbs of networks that go beyond cutting and slowing: what they are called, who carries them out, what looks.

`agent.py` takes the lot, `faults` to be injected and healed, `probes` to be asked.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from connections import probe_connections
from errands import ErrandProbe, Errands
from faults import FaultVerb
from journal import Journal
from link_rules import QueueRules
from link_shaping import Emulators, ShapeLinks
from net_reset import ResetConnections
from net_storm import Storm
from network import Network
from port_cuts import DropPort
from train_probe import TrainProbe

Arguments = dict[str, Any]


class NetworkVerbs:
    """One host's."""

    def __init__(self, state: Path, journal: Journal, network: Network, listen: str) -> None:
        address, _, port = listen.rpartition(":")
        self.queue_rules = QueueRules(network.control_port)
        shaping = ShapeLinks(self.queue_rules, Emulators(state))
        errands = Errands(state)
        self._port_cuts = DropPort(network)
        self._resets = ResetConnections(errands, network.control_port)
        trains = TrainProbe(address, int(port))
        self.faults: dict[str, FaultVerb] = {
            "net.shape": shaping,
            "net.spoil": shaping,
            "net.drop_port": self._port_cuts,
            "net.reset": self._resets,
            "net.storm": Storm(errands),
        }
        self.probes: dict[str, Callable[[Arguments], Arguments]] = {
            "probe.throw": trains.throw,
            "probe.caught": trains.caught,
            "probe.connections": probe_connections,
            "probe.errand": ErrandProbe(errands, journal).answer,
        }

    def unable(self) -> dict[str, str]:
        """Verbs that this host cannot carry out, and why."""
        driver, cannot_queue = self.queue_rules.driver()
        reasons = {
            "net.shape": None if driver else cannot_queue,
            "net.spoil": None if driver else cannot_queue,
            "net.drop_port": self._port_cuts.trouble_with_host(),
            "net.reset": self._resets.trouble_with_host(),
        }
        return {verb: reason for verb, reason in reasons.items() if reason}
