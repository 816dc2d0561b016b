"""How simulated nodes are numbered: Kafka permits the id 0, and clusters that begin with 1 show no mistake about it.

A suite says it (`cluster.node_ids`), and the simulated world carries it out.
"""

from __future__ import annotations

from typing import Literal

NodeIds = Literal["usual", "brokers-from-0", "controllers-from-0"]
