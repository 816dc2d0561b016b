"""Check logs as in a notebook: plain pandas, one row per record, groups and joins.

`python -m squall.benchmarks.parts.pandas_check RUN` prints the number of each anomaly as JSON. The checker is measured
against it, so it applies the same rules of logs. It knows neither epochs, nor clocks, nor outages, nor witnesses, and
does not check whether the history is well-formed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pandas as pd
import pyarrow.compute as pc
import pyarrow.parquet as pq

from squall.results.history.history import FUNCTIONS, HISTORY_FILE, TYPES

COLUMNS = [
    "topic", "partition", "f", "type", "process", "client", "session", "sequence", "invoked", "completed", "value",
    "offset", "high_watermark", "offsets", "values",
]  # fmt: skip
PLACE = ["topic", "partition"]


def plain_check(run_dir: Path) -> dict[str, int]:
    """Anomalies of a run's logs: their number by name."""
    rows = read(run_dir / HISTORY_FILE)
    sends = rows[rows["f"].isin([FUNCTIONS["send"], FUNCTIONS["marker"]])]
    acked = sends[sends["type"] == TYPES["ok"]]
    polls = rows[rows["f"].isin([FUNCTIONS["poll"], FUNCTIONS["final_poll"]])].sort_values("invoked", kind="stable")
    records = polls.drop(columns=["offset", "value"]).explode(["offsets", "values"]).dropna(subset=["offsets"])
    records = records.rename(columns={"offsets": "offset", "values": "value"})
    records = records.astype({"offset": "int64", "value": "int64"})
    pairs = records[[*PLACE, "offset", "value"]].drop_duplicates()
    found = {
        **_agreement(pairs, acked),
        **_provenance(pairs, sends),
        **_losses(records, acked),
        **_sessions(records, pairs),
        **_order(records, sends, rows),
    }
    return {name: count for name, count in found.items() if count}


def read(path: Path) -> pd.DataFrame:
    """Read values as integers.

    Pandas turns numbers among nulls into floats, which would lose bits: a value's high bits are its process.
    """
    table = pq.read_table(path, columns=COLUMNS)
    whole = pc.fill_null(table["value"], -1)
    rows: pd.DataFrame = table.set_column(COLUMNS.index("value"), "value", whole).to_pandas()
    return rows


def _agreement(pairs: pd.DataFrame, acked: pd.DataFrame) -> dict[str, int]:
    both = pd.concat([pairs, acked[[*PLACE, "offset", "value"]].astype({"offset": "int64"})]).drop_duplicates()
    return {
        "inconsistent_offset": int((pairs.groupby([*PLACE, "offset"], observed=True).size() > 1).sum()),
        "duplicate": int((both.groupby([*PLACE, "value"], observed=True).size() - 1).sum()),
    }


def _provenance(pairs: pd.DataFrame, sends: pd.DataFrame) -> dict[str, int]:
    known = pairs.merge(sends[[*PLACE, "value", "type"]], on=[*PLACE, "value"], how="left")
    return {
        "phantom": int(known["type"].isna().sum()),
        "aborted_read": int((known["type"] == TYPES["fail"]).sum()),
    }


def _losses(records: pd.DataFrame, acked: pd.DataFrame) -> dict[str, int]:
    final = records[records["f"] == FUNCTIONS["final_poll"]][[*PLACE, "offset", "value"]].drop_duplicates()
    kept = acked[[*PLACE, "offset", "value"]].merge(final, on=[*PLACE, "offset", "value"], how="left", indicator=True)
    return {"lost_write": int((kept["_merge"] == "left_only").sum())}


def _sessions(records: pd.DataFrame, pairs: pd.DataFrame) -> dict[str, int]:
    """Records that go back, or skip records that any client read, within a session."""
    read = pairs[[*PLACE, "offset"]].drop_duplicates().sort_values([*PLACE, "offset"])
    read["before"] = read.groupby(PLACE, observed=True)["offset"].shift()
    records = records.merge(read, on=[*PLACE, "offset"], how="left", sort=False)
    session = [*PLACE, "client", records["session"].fillna(0)]
    previous = records.groupby(session, observed=True, sort=False)["offset"].shift()
    back = previous >= records["offset"]
    skipped = ~back & (previous < records["before"]) & (records["f"] == FUNCTIONS["poll"])
    return {"nonmonotonic_poll": int(back.sum()), "poll_skip": int(skipped.sum())}


def _order(records: pd.DataFrame, sends: pd.DataFrame, rows: pd.DataFrame) -> dict[str, int]:
    """Real time: the order of sends, reads before sends, log ends that go back or are too low."""
    placed = sends[sends["type"] == TYPES["ok"]].sort_values([*PLACE, "offset"])
    latest = placed.groupby(PLACE, observed=True)["invoked"].cummax()
    read = records.groupby([*PLACE, "offset"], observed=True)["completed"].min().rename("read")
    shown = placed.merge(read, left_on=[*PLACE, "offset"], right_index=True, how="left")
    asked = rows[rows["f"] == FUNCTIONS["list_offsets"]].sort_values("invoked", kind="stable")
    done = placed.sort_values("completed", kind="stable")[[*PLACE, "completed", "offset"]]
    done["highest"] = done.groupby(PLACE, observed=True)["offset"].cummax()
    told = pd.merge_asof(
        asked[[*PLACE, "invoked", "high_watermark"]],
        done.astype({"completed": "int64"}).rename(columns={"completed": "invoked"})[[*PLACE, "invoked", "highest"]],
        on="invoked",
        by=PLACE,
        allow_exact_matches=False,
    )
    sequence = placed.sort_values([*PLACE, "client", "sequence"])
    step = sequence.groupby([*PLACE, "client"], observed=True)["offset"].diff()
    return {
        "rt_order": int((placed["completed"] < latest).sum()),
        "future_read": int((shown["read"] < latest.to_numpy()).sum()),
        "stale_read": int((told["highest"] >= told["high_watermark"]).sum()),
        "nonmonotonic_send": int((step <= 0).sum()),
    }


if __name__ == "__main__":
    print(json.dumps(plain_check(Path(sys.argv[1]))))
