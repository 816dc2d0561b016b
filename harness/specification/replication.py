"""A topic-partition as `kafka_replication_kip_966.tla` has it: what action an event is, and when it may be (DA-08).

The specification is public (github.com/Vanlightly/kafka-tlaplus, `kafka_data_replication/kraft/kip-966`). Actions have
its names (DA-08). As in `kraft.py`, a log is the list of its records' leader epochs. Metadata is taken as it reaches
each replica; the controller's own steps are those of the metadata log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from squall.harness.specification.broken import require

Fields = Mapping[str, object]


@dataclass
class Replica:
    """The variables of one replica."""

    leads: bool = False
    epoch: int = -1
    log: list[int] = field(default_factory=list)
    high_watermark: int = 0
    isr: frozenset[int] | None = None
    """As its metadata has it, None while unknown."""
    partition_epoch: int = -1


class Replication:
    """All replicas of one topic-partition. `step` takes one traced event and returns the action that it is, if any."""

    def __init__(self) -> None:
        self.replicas: dict[int, Replica] = {}
        self.leaders: dict[int, int] = {}
        self.written: dict[int, list[int]] = {}
        """By leader epoch: the log of its leader, as far as ever written."""
        self.committed: list[int] = []
        self.taken: Counter[str] = Counter()

    def step(self, name: str, fields: Fields) -> str | None:
        """Take one event of a broker's trace about this topic-partition. Raises SpecificationBroken."""
        broker = _number(fields, "broker")
        replica = self.replicas.setdefault(broker, Replica())
        action = self._action(name, broker, replica, fields)
        if action is not None:
            self.taken[action] += 1
        return action

    def _action(self, name: str, broker: int, replica: Replica, fields: Fields) -> str | None:
        match name:
            case "leader":
                return self._lead(broker, replica, fields)
            case "follower":
                return self._follow(broker, replica, fields)
            case "append":
                return self._append(broker, replica, fields)
            case "truncate":
                return self._truncate(broker, replica, fields)
            case "high_watermark":
                return self._advance(broker, replica, fields)
            case "isr_proposed":
                require(replica.leads, "SendAlterPartitionRequest", broker, "it does not lead")
                return "SendAlterPartitionRequest"
            case "isr":
                return self._isr(broker, replica, fields)
        return None

    # -- metadata ---------------------------------------------------------------------------------------------

    def _lead(self, broker: int, replica: Replica, fields: Fields) -> str:
        action, epoch = "ReceiveMetadataUpdate", _number(fields, "epoch")
        known = self.leaders.setdefault(epoch, broker)
        require(known == broker, action, broker, f"leader epoch {epoch} has leaders {known} and {broker}")
        self._settle(broker, replica, fields)
        have = replica.log[: len(self.committed)]
        require(have == self.committed, action, broker, "its log lacks committed records (LeaderCompleteness)")
        if not replica.leads:
            replica.high_watermark = min(replica.high_watermark, len(replica.log))
        replica.leads, replica.epoch = True, epoch
        self.written[epoch] = list(replica.log)
        return action

    def _follow(self, broker: int, replica: Replica, fields: Fields) -> str:
        self._settle(broker, replica, fields)
        replica.leads, replica.epoch = False, _number(fields, "epoch")
        return "ReceiveMetadataUpdate"

    def _settle(self, broker: int, replica: Replica, fields: Fields) -> None:
        """A broker that restarted may have lost the end of its log, and the state of its replica."""
        end = _number(fields, "end")
        lost = end < len(replica.log)
        if lost or _number(fields, "epoch") <= replica.epoch:
            replica.partition_epoch, replica.isr = -1, None
            replica.high_watermark = min(replica.high_watermark, end)
        require(end <= len(replica.log) or not replica.log, "BrokerStart", broker, f"its log grew to {end}")
        replica.log = [*replica.log, *self.committed[len(replica.log) :]][:end]

    def _isr(self, broker: int, replica: Replica, fields: Fields) -> str:
        members, epoch = fields["isr"], _number(fields, "partition_epoch")
        replica.isr = frozenset(int(str(one)) for one in members)  # type: ignore[attr-defined]
        replica.partition_epoch = epoch
        return "ReceiveMetadataUpdate"

    # -- records ----------------------------------------------------------------------------------------------

    def _append(self, broker: int, replica: Replica, fields: Fields) -> str:
        first, last, epoch = (_number(fields, name) for name in ("first", "last", "epoch"))
        action = "WriteRecordToLeader" if replica.leads else "ReceiveFetchResponse"
        require(first == len(replica.log), action, broker, f"a record at {first}, its log ends at {len(replica.log)}")
        if replica.leads:
            require(epoch == replica.epoch, action, broker, f"a record of epoch {epoch} in epoch {replica.epoch}")
            self.written[epoch].extend([epoch] * (last + 1 - first))
        source = self.written.get(replica.epoch, [])
        content = source[first : last + 1]
        require(len(content) == last + 1 - first, action, broker, f"records to {last}, which no leader wrote")
        require(content[-1] == epoch, action, broker, f"the leader wrote epoch {content[-1]}, it has {epoch}")
        replica.log.extend(content)
        return action

    def _truncate(self, broker: int, replica: Replica, fields: Fields) -> str:
        action, to = "ReceiveFetchResponse", _number(fields, "to")
        require(not replica.leads, action, broker, f"a leader truncates to {to}")
        if to > len(replica.log):  # all of it is older than what the leader still has
            replica.log = self.written.get(replica.epoch, [])[:to]
        del replica.log[to:]
        return action

    def _advance(self, broker: int, replica: Replica, fields: Fields) -> str:
        offset = _number(fields, "offset")
        action = "ReceiveFetchRequest" if fields["led"] else "ReceiveFetchResponse"
        require(offset <= len(replica.log), action, broker, f"{offset}, its log ends at {len(replica.log)}")
        if fields["led"]:
            require(offset >= replica.high_watermark, action, broker, f"{offset} after {replica.high_watermark}")
            behind = [
                one
                for one in sorted(replica.isr or ())
                if (other := self.replicas.get(one)) is None or other.log[:offset] != replica.log[:offset]
            ]
            require(not behind, action, broker, f"{offset} is not on {behind} of the ISR (ReplicationQuorumSuperset)")
            before = self.committed[:offset]
            require(replica.log[: len(before)] == before, action, broker, "committed records are replaced")
            self.committed = replica.log[:offset] if offset > len(self.committed) else self.committed
        elif offset > replica.high_watermark:
            same = replica.log[:offset] == self.committed[:offset]
            require(same, action, broker, f"records below {offset} are not the committed ones (ConsistentRead)")
        replica.high_watermark = offset
        return action


def _number(fields: Fields, name: str) -> int:
    return int(str(fields[name]))
