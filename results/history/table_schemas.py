"""The columns of the tables beside `history.parquet`: what those who write them, read them and judge them agree on."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

REGISTER_SCHEMA: Final = pa.schema(
    [
        pa.field("op_id", pa.int64(), nullable=False),
        pa.field("process", pa.int64(), nullable=False),
        pa.field("register", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("f", pa.int8(), nullable=False),
        pa.field("type", pa.int8(), nullable=False),
        pa.field("invoked", pa.int64(), nullable=False),
        pa.field("completed", pa.int64()),
        pa.field("value", pa.int64()),  # what a write or a cas puts there
        pa.field("expected", pa.int64()),  # what a cas wants to find
        pa.field("found", pa.int64()),  # what the answer says the register held
        pa.field("version", pa.int64()),
        pa.field("refused", pa.bool_(), nullable=False),
        pa.field("error", pa.string()),
        pa.field("clock_id", pa.int16(), nullable=False),
        pa.field("clock_error", pa.int64(), nullable=False),
    ]
)

APPEND: Final = 0
READ: Final = 1
"""The functions of a micro-operation in `TRANSACTION_SCHEMA`."""

TRANSACTION_SCHEMA: Final = pa.schema(
    [
        pa.field("op_id", pa.int64(), nullable=False),
        pa.field("process", pa.int64(), nullable=False),
        pa.field("type", pa.int8(), nullable=False),
        pa.field("invoked", pa.int64(), nullable=False),
        pa.field("completed", pa.int64()),  # null: nothing came back
        pa.field("clock_error", pa.int64(), nullable=False),
        pa.field("functions", pa.list_(pa.int8()), nullable=False),
        pa.field("keys", pa.list_(pa.int64()), nullable=False),
        pa.field("elements", pa.list_(pa.int64()), nullable=False),  # of an append; 0 for a read
        pa.field("reads", pa.list_(pa.list_(pa.int64())), nullable=False),  # null: an append, or nobody knows
    ]
)

LOG_SCHEMA: Final = pa.schema(
    [
        pa.field("op_id", pa.int64(), nullable=False),
        pa.field("process", pa.int64(), nullable=False),
        pa.field("type", pa.int8(), nullable=False),
        pa.field("invoked", pa.int64(), nullable=False),
        pa.field("completed", pa.int64()),
        pa.field("clock_error", pa.int64(), nullable=False),
        pa.field("committed_only", pa.bool_(), nullable=False),  # its polls ask for committed records
        pa.field("final", pa.bool_(), nullable=False),  # its polls read its topic-partitions whole
        pa.field("final_partitions", pa.list_(pa.int32())),  # those, also if they were empty; null: those delivered
        pa.field("sent_partition", pa.list_(pa.int32()), nullable=False),
        pa.field("sent_value", pa.list_(pa.int64()), nullable=False),
        pa.field("sent_offset", pa.list_(pa.int64()), nullable=False),  # null: not known
        pa.field("polled_run", pa.list_(pa.int32()), nullable=False),  # which poll of the transaction
        pa.field("polled_partition", pa.list_(pa.int32()), nullable=False),
        pa.field("polled_offset", pa.list_(pa.int64()), nullable=False),
        pa.field("polled_value", pa.list_(pa.int64()), nullable=False),
        pa.field("session", pa.int32()),  # polls continue those of the process before in the same one; null: not known
    ]
)
LOG_OPTIONAL: Final = ("session",)
"""Columns that older tables lack."""

GROUP_SCHEMA: Final = pa.schema(
    [
        pa.field("op_id", pa.int64(), nullable=False),
        pa.field("process", pa.int64(), nullable=False),
        pa.field("group", pa.int32(), nullable=False),  # -1: none
        pa.field("member", pa.int64(), nullable=False),
        pa.field("f", pa.int8(), nullable=False),
        pa.field("type", pa.int8(), nullable=False),
        pa.field("invoked", pa.int64(), nullable=False),
        pa.field("completed", pa.int64()),
        pa.field("clock_error", pa.int64(), nullable=False),
        pa.field("generation", pa.int64()),  # of a join, or of a commit that states one
        pa.field("partition", pa.int32()),  # of a commit, a position or a poll
        pa.field("position", pa.int64()),
        pa.field("assigned", pa.list_(pa.int32()), nullable=False),  # what a join was given
        pa.field("delivered", pa.list_(pa.int64()), nullable=False),  # the offsets of a poll
    ]
)

REPLICA_SCHEMA: Final = pa.schema(
    [
        ("row", pa.int8()),
        ("replica", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("topic_id", pa.string()),
        ("host", pa.string()),
        ("node", pa.int32()),
        ("base", pa.int64()),
        ("last", pa.int64()),
        ("epoch", pa.int64()),
        ("digest", pa.int64()),
        ("count", pa.int64()),
        ("sound", pa.int64()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int64()),
        ("sequence", pa.int64()),
        ("flags", pa.int64()),
        ("in_sync", pa.bool_()),
        ("live", pa.bool_()),
        ("leads", pa.bool_()),
        ("collected", pa.bool_()),
        ("required", pa.int64()),
        ("removal", pa.bool_()),
        ("problem", pa.string()),
        ("files", pa.string()),  # a line for each file that contradicts the batches
    ]
)
REPLICA_OPTIONAL: Final = ("files",)
CONTROL_SCHEMA: Final = pa.schema(
    [
        ("kind", pa.string()),
        ("host", pa.string()),
        ("node", pa.int32()),
        ("incarnation", pa.int32()),
        ("event", pa.string()),
        ("role", pa.string()),
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("epoch", pa.int64()),
        ("partition_epoch", pa.int64()),
        ("leader", pa.int64()),
        ("offset", pa.int64()),
        ("last", pa.int64()),
        ("digest", pa.int64()),
        ("count", pa.int64()),
        ("sound", pa.int64()),
        ("live", pa.bool_()),
        ("problem", pa.string()),
        ("members", pa.list_(pa.int32())),
        ("facts", pa.string()),  # what else a metadata record states, as JSON; of a log what `files` is above
    ]
)
CONTROL_OPTIONAL: Final = ("facts",)
