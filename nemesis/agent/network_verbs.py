"""The verbs of networks that go beyond cutting and slowing: what they are called, who carries them out, what looks.

`agent.py` takes the lot, `faults` to be injected and healed, `probes` to be asked.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from faults import FaultVerb
from link_rules import QueueRules
from link_shaping import Emulators, ShapeLinks
from network import Network
from port_cuts import DropPort
from train_probe import TrainProbe

Arguments = dict[str, Any]


class NetworkVerbs:
    """One host's."""

    def __init__(self, state: Path, network: Network, listen: str) -> None:
        address, _, port = listen.rpartition(":")
        self.queue_rules = QueueRules(network.control_port)
        shaping = ShapeLinks(self.queue_rules, Emulators(state))
        self._port_cuts = DropPort(network)
        trains = TrainProbe(address, int(port))
        self.faults: dict[str, FaultVerb] = {
            "net.shape": shaping,
            "net.spoil": shaping,
            "net.drop_port": self._port_cuts,
        }
        self.probes: dict[str, Callable[[Arguments], Arguments]] = {
            "probe.throw": trains.throw,
            "probe.caught": trains.caught,
        }

    def unable(self) -> dict[str, str]:
        """Verbs that this host cannot carry out, and why."""
        driver, cannot_queue = self.queue_rules.driver()
        unable = {} if driver else dict.fromkeys(("net.shape", "net.spoil"), cannot_queue)
        cannot_cut = self._port_cuts.trouble_with_host()
        return {**unable, "net.drop_port": cannot_cut} if cannot_cut else unable
