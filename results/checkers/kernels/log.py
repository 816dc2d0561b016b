"""Apply the rules of an append-only log to one topic-partition (HX-07).

A history is that of a correct log if and only if

R0  offsets and values agree one to one: no offset holds two values (`inconsistent_offset`), no value lies at
    two offsets (`duplicate`), everything read was sent (`phantom`) and did not fail (`aborted_read`);
R1  real time is respected (`realtime.py`, which also states which log ends are legal);
R2  each poll delivers increasing offsets (`int_nonmonotonic`) without leaving out a record between them that was
    read by any poll (`int_poll_skip`);
R3  what polls state of the log is true: its start does not lie beyond its high watermark (`log_start_ahead`), and no
    send that begins later lies below that (`hw_ahead`; `stated_ends.py`);

and a client sees no less than that over time:

S1  a session's polls never go back (`nonmonotonic_poll`), nor
S2  pass over a record that was read by any poll (`poll_skip`);
S3  what an idempotent client sent later lies later (`nonmonotonic_send`);
L   nothing acknowledged under acks=all is lost, nothing read is retracted (`lost_write`).

One defect gets one name. A record that was acknowledged and never read concerns L alone: it does not count against
polls that pass over it, nor against the order of the others. The final read is the log as it is at the end; what it
leaves out is lost, not skipped. But a final poll that passes over what another final poll delivered, or within one poll
over what lies below the log start, skips it as any poll would, because no loss would report it.

An acknowledged record is lost if the final read covers its offset and has something else there, or nothing; if it lies
beyond the end of a complete final read although it was acknowledged before the marker was sent; or, without a final
read, if polls read around it. Otherwise no poll covered it, and it is `unseen`: counted, no anomaly. Acknowledgements
under acks 0 or 1 guarantee nothing: such records count as `lost_unprotected`. Offsets below the log start are exempt,
also where a session passes over them, which continues at the current log start; but what was read there must be what
was acknowledged there. A log that starts beyond the marker of a complete final read is taken to start at the marker.
Where neither settings nor clients could remove records from the front of a log (`Operations.keeps_front`), it starts at
0, whatever its nodes state: one that has lost its records and begins at its end has lost them. A value whose lower
offset had been removed may lie at a second one, by a leader that no longer knew its producer (`removed_records.py`).

Without idempotence a value may lie at several offsets, at none of which it was before its send began. An acknowledged
value lies at the stated offset; if none was stated, at one of its offsets by then, which is certain only for the lowest
offset, and only if everything below is known. A copy at another offset does not make up for a missing record.

Polls of one session are assumed not to overlap: our clients do not poll again before the response. The order of
overlapping polls is unknown, and the step between them is not judged.

For each rule a compiled loop (`passes.py`) first finds everything that might break it, which in a healthy history is
nothing. Only the suspects are judged, with numpy in the rule's own module.
"""

from __future__ import annotations

from squall.results.checkers.kernels.agreement import check_agreement, check_duplicates, check_provenance
from squall.results.checkers.kernels.findings import Findings
from squall.results.checkers.kernels.losses import check_losses
from squall.results.checkers.kernels.observed import Observed
from squall.results.checkers.kernels.operations import Operations
from squall.results.checkers.kernels.order import check_real_time, check_send_order
from squall.results.checkers.kernels.sessions import check_sessions
from squall.results.checkers.kernels.stated_ends import check_stated_ends


def check_log(
    operations: Operations, observed: Observed, *, linearizable_reads: bool = False, stated_ends: bool = True
) -> Findings:
    """Apply all rules to one topic-partition, or to one slice of it: without `stated_ends`, which need all its polls.

    With `linearizable_reads`, log ends stated by polls are checked too.
    """
    findings = Findings()
    check_agreement(operations, observed, findings)
    check_provenance(operations, observed, findings)
    check_duplicates(operations, observed, findings)
    check_sessions(operations, observed, findings)
    lost = check_losses(operations, observed, findings)
    check_send_order(operations, observed, lost, findings)
    check_real_time(operations, observed, lost, linearizable_reads, findings)
    if stated_ends:
        check_stated_ends(operations, findings)
    return findings
