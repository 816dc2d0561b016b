"""Decide a topic-partition's leader, ISR and ELR (rules 27 and 28; IS-02, IS-09, EL-01 to EL-04).

One pure function, `decide`, takes the current state of a topic-partition and its next ISR, and returns everything that
follows. All of it depends on one question: *which replicas are known to have every committed record?*

ISR     all its members have. The leader counts an acknowledgement only when every member has the record.
ELR     with min ISR m, the high watermark stands still while fewer than m are in sync (rule 10). So a replica that
        leaves an ISR which then has fewer than m members misses nothing that is ever committed afterwards, until
        there are m again. Those are the eligible leader replicas (KIP-966):

            |new ISR| >= m    ELR = {}
            |new ISR| <  m    ELR = (ELR + old ISR) - new ISR - those that may have lost records

        An unclean restart shows which replicas may have lost records (`lost`, EL-05). As the rest of the ISR and ELR is
        at least m replicas, m - 1 lossy restarts cost nothing (EL-01). With ELRs the ISR may be empty; without them its
        last member stays in it even while it is down, because it alone is known to have everything, which is wrong
        as soon as it comes back from a power failure: the *last replica standing* problem.

The order of an election (EL-04): the leader stays if it may; else the first in assignment order that is in the ISR and
active; else, only if the ISR is empty, the first active one of the ELR, which then is the whole ISR. ELR and last known
members are computed again from that ISR: if min ISR has become 1, the new leader would commit alone and the others
would no longer be eligible.

The remaining elections may lose records; the leader is then alone in the ISR, RECOVERING, and the ELR empty:

* *the last known leader*, if it is active, where ISR and ELR are empty, that is, when all who had everything have
  restarted uncleanly. An unclean restart need not have lost anything (a killed process leaves its page cache to the
  kernel), so this restores a cluster whose brokers were all killed. It can lose records only if as many of the ISR and
  ELR as min ISR requires restarted uncleanly, and the last leader lost its share: beyond the guarantee of EL-01. Kafka
  does the same, but checks whether the broker is alive only to log it (disagreement X33); here a leader that is not
  active is never elected. `unclean.recovery.strategy=None` turns this off: then such a topic-partition waits for an
  operator.
* *any active replica*, in assignment order, where the topic has `unclean.leader.election.enable`.

Last known members are kept for the first of these, and for people: the leader at the time when the ISR became empty
comes first, then those dropped for an unclean restart. Enough members in sync clear them with the ELR.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from squall.nodes.metadata.image import PartitionRegistration
from squall.nodes.metadata.records import NO_LEADER

Active = Callable[[int], bool]
Replicas = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings, of topic and cluster, that affect decisions."""

    min_isr: int = 1
    """As configured; effectively at most the number of replicas."""
    eligible_leaders: bool = True
    unclean: bool = False
    last_known_leader: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """The new state of a topic-partition. `unclean`: records may have been lost."""

    leader: int
    isr: Replicas
    elr: Replicas = ()
    last_known_elr: Replicas = ()
    unclean: bool = False


def decide(
    registration: PartitionRegistration, isr: Replicas, active: Active, rules: Rules, *, lost: Replicas = ()
) -> Decision:
    """Decide the state of a topic-partition whose ISR becomes `isr` if possible. `lost` may have lost records."""
    if not rules.eligible_leaders:
        return _without_elr(registration, isr, active, rules)
    isr = tuple(member for member in isr if member not in lost)
    decision = _with_isr(registration, NO_LEADER, isr, rules, lost)
    leader = _first_of(registration, isr, active)
    if leader == NO_LEADER and not isr:
        leader = _first_of(registration, decision.elr, active)
        isr = (leader,)
    if leader != NO_LEADER:
        return _with_isr(registration, leader, isr, rules, lost)
    return _unclean(registration, decision, active, rules)


def _without_elr(registration: PartitionRegistration, isr: Replicas, active: Active, rules: Rules) -> Decision:
    decision = Decision(NO_LEADER, isr or registration.isr)
    leader = _first_of(registration, decision.isr, active)
    if leader != NO_LEADER:
        return Decision(leader, decision.isr)
    return _unclean(registration, decision, active, rules)


def _first_of(registration: PartitionRegistration, candidates: Replicas, active: Active) -> int:
    """The leader if it is an active candidate, else the first active one in assignment order; NO_LEADER if none is."""
    for replica in (registration.leader, *registration.replicas):
        if replica in candidates and active(replica):
            return replica
    return NO_LEADER


def _unclean(registration: PartitionRegistration, decision: Decision, active: Active, rules: Rules) -> Decision:
    """An election that may lose records, if one is allowed; else the given decision, without a leader."""
    chosen = NO_LEADER
    if not decision.isr and not decision.elr and (rules.last_known_leader or rules.unclean):
        chosen = next((one for one in decision.last_known_elr[:1] if active(one)), NO_LEADER)
    if chosen == NO_LEADER and rules.unclean:
        chosen = next((one for one in registration.replicas if active(one)), NO_LEADER)
    return decision if chosen == NO_LEADER else Decision(chosen, (chosen,), unclean=True)


def _with_isr(
    registration: PartitionRegistration, leader: int, isr: Replicas, rules: Rules, lost: Replicas
) -> Decision:
    """The decision for this leader and ISR, with the ELR and the last known members that follow (rule 28)."""
    if len(isr) >= min(rules.min_isr, len(registration.replicas)):
        return Decision(leader, isr)
    had_all = [one for one in registration.replicas if one in registration.isr or one in registration.elr]
    elr = tuple(one for one in had_all if one not in isr and one not in lost)
    known = [] if isr or registration.leader == NO_LEADER else [registration.leader]
    known += registration.last_known_elr
    known += [one for one in had_all if one in lost]
    return Decision(leader, isr, elr, tuple(one for one in dict.fromkeys(known) if one not in isr))
