"""Tell which duplicates the removal of a log's front explains (HX-07, KIP-360).

A leader knows the sequences of a producer from the records of its log. A replica that begins at a log start that lies
beyond a producer's last record knows nothing of that producer. When it leads, it accepts a retry of that record, as
Apache Kafka does (`truncateFullyAndStartAt`). Idempotence promises nothing then: the value lies at two offsets.

This explains a value at `first` and again at `second`, a higher offset, only if

1. records may be removed from the front of the log at all (`Operations.keeps_front`), and a response stated a log start
   beyond `first`;
2. no poll shows the front of a log that also had `second`: none delivered a record at or below `first` and a record at
   or beyond `second`, or a high watermark beyond `second`. A follower that has `second` has the leader's log start too;
3. the two may be of different leader epochs. A leader does not forget a producer when it removes records. A poll states
   the epoch of the last record that it delivered. Epochs begin at 0 and do not fall along a log.
"""

from __future__ import annotations

import numpy as np

from squall.results.checkers.kernels.operations import NEVER, NONE, Flags, Ints, Operations


def explained_by_removal(operations: Operations, first: Ints, second: Ints) -> Flags:
    """By pair of offsets at which one value lies: whether an idempotent producer may cause it; `first` is the lower."""
    below = first < operations.log_start
    if not below.any():
        return below
    polls = np.flatnonzero(operations.is_poll & (np.diff(operations.starts) > 0))
    if len(polls) == 0:
        return below
    lowest = operations.record_offset[operations.starts[polls]]
    last = operations.record_offset[operations.starts[polls + 1] - 1]
    reached = np.maximum(last, np.maximum(operations.high_watermark[polls], 1) - 1)
    epoch = operations.leader_epoch[polls]
    states = epoch != NONE
    least = _highest_up_to(last[states], epoch[states], first, otherwise=0)
    most = -_highest_up_to(-last[states], -epoch[states], -second, otherwise=-NEVER)
    return below & (_highest_up_to(lowest, reached, first, otherwise=NONE) < second) & (least < most)


def _highest_up_to(keys: Ints, values: Ints, limits: Ints, *, otherwise: int) -> Ints:
    """By limit: the highest of the values whose key is at most the limit; `otherwise` if there is none."""
    order = np.argsort(keys, kind="stable")
    highest = np.append(otherwise, np.maximum.accumulate(values[order].astype(np.int64)))
    return highest[np.searchsorted(keys[order], limits, side="right")]
