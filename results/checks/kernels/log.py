"""The rules of an append-only log, for one topic-partition (HX-07).

A history is that of a correct log if and only if

R0  offsets and values agree one to one: no offset holds two values (`inconsistent_offset`), no value lies at
    two offsets (`duplicate`), everything read was sent (`phantom`) and did not fail (`aborted_read`);
R1  real time is respected (`realtime.py`, which also says what a stated log end is held to);
R2  each poll delivers increasing offsets (`int_nonmonotonic`) without leaving out a record that somebody read
    between them (`int_poll_skip`);

and a client sees no less than that over time:

S1  a session's polls never go back (`nonmonotonic_poll`), nor
S2  pass over a record that somebody read (`poll_skip`);
S3  what an idempotent client sent later lies later (`nonmonotonic_send`);
L   nothing acknowledged under acks=all is lost, nothing read is retracted (`lost_write`).

One defect gets one name. A record that was acknowledged and never read is a matter of L alone: it is not held
against the polls that pass it by, nor against the order of the others. The final read is the log as it is in
the end; what it leaves out is lost, not skipped. But a final poll that passes over what another of them delivered, or
within itself over what lies below the log's start, skips it as any poll would: no loss would tell.

An acknowledged record is lost if the final read covers its offset and has something else there, or nothing; if it lies
beyond the end of a complete final read although it was acknowledged before the marker was sent; or, where there is no
final read, if somebody read around it. Otherwise nobody looked, and it is `unseen`: counted, no anomaly.
Acknowledgements under acks 0 or 1 promise nothing: such records count as `lost_unprotected`. Offsets below the log's
start are exempt, also where a session passes over them, which goes on where the log starts now; but what was read there
must be what was acknowledged there. A log that starts beyond the marker which a complete final read has come to is
taken to start at the marker.

Without idempotence a value may lie at several offsets, none of which it reached before its send began. Acknowledged, it
lies at the offset that was said; where none was said, at one of them by then, which is certain only of the lowest, and
only if all below is known. That a copy lies elsewhere does not make up for one that is gone.

Polls of one session are taken not to overlap: no client of ours asks again before it was answered. Of those that do
overlap nobody can say which came first, and nothing is said of the step between them.

Each rule first has a compiled loop (`passes.py`) look for whatever might break it, which in a healthy history is
nothing; what it names is judged with numpy in the rule's own module, and nothing else is looked at again.
"""

from __future__ import annotations

from squall.results.checks.kernels.agreement import check_agreement, check_duplicates, check_provenance
from squall.results.checks.kernels.findings import Findings
from squall.results.checks.kernels.losses import check_losses
from squall.results.checks.kernels.observed import Observed
from squall.results.checks.kernels.operations import Operations
from squall.results.checks.kernels.order import check_real_time, check_send_order
from squall.results.checks.kernels.sessions import check_sessions


def check_log(operations: Operations, observed: Observed, *, linearizable_reads: bool = False) -> Findings:
    """All rules over one topic-partition. `linearizable_reads` holds polls to the log end they state."""
    findings = Findings()
    check_agreement(operations, observed, findings)
    check_provenance(operations, observed, findings)
    check_duplicates(operations, observed, findings)
    check_sessions(operations, observed, findings)
    lost = check_losses(operations, observed, findings)
    check_send_order(operations, observed, lost, findings)
    check_real_time(operations, observed, lost, linearizable_reads, findings)
    return findings
