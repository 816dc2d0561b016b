"""Load a run as pandas tables, for exploration in notebooks: `squall.results.load(run)`.

All tables are read from the output of `squall check`, or from the segments of a run that was never checked. Codes
become names, times become seconds since the load began (as in the report), and nothing is left out: `operations` has
every column of the history. A table is made at first use and then kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from squall.results.history.history import FUNCTIONS, TYPES, History, read_cluster, read_faults
from squall.results.history.manifest import Manifest
from squall.results.history.operation_tables import KINDS, REGISTERS
from squall.results.history.rows import REGISTER_FUNCTIONS
from squall.results.report.tables import Series
from squall.results.verdict.verdict import VERDICT_FILE, Verdict

_WHOLE: Final = {pa.int64(): pd.Int64Dtype(), pa.int32(): pd.Int32Dtype()}
"""Integers stay integers where some are missing, because a value does not fit a float."""
_TIMES: Final = {"at": "at_second", "invoked": "second", "completed": "completed_second"}


@dataclass(frozen=True)
class Run:
    """One stored run. `manifest` says what was run; `history` has the columns as they are stored, as Arrow tables."""

    directory: Path
    manifest: Manifest
    history: History

    @classmethod
    def load(cls, run: Path | str) -> Run:
        """Load a run from its directory. Raises IllFormedHistory."""
        directory = Path(run)
        manifest = Manifest.load(directory)
        return cls(directory, manifest, History.load(directory, run_id=manifest.run_id))

    @property
    def verdict(self) -> Verdict | None:
        """The verdict of `squall check`; None if the run has not been checked."""
        return Verdict.load(self.directory) if (self.directory / VERDICT_FILE).exists() else None

    @cached_property
    def operations(self) -> pd.DataFrame:
        """A row per operation on a log: names for codes, times in seconds.

        `latency` counts from the intended start, in seconds; it is NaN if there was no completion.
        """
        return self._named(self.history.table, FUNCTIONS)

    @cached_property
    def records(self) -> pd.DataFrame:
        """A row per delivered record: its poll (`op_id`), when the poll completed, and the record's offset."""
        table = self.history.table
        lengths = np.asarray(pc.list_value_length(table["offsets"])).astype(np.int64)
        polls = self.operations[["op_id", "process", "f", "topic", "partition", "completed_second"]]
        rows = polls.loc[polls.index.repeat(lengths)].reset_index(drop=True)
        rows["offset"] = np.asarray(pc.list_flatten(table["offsets"]))
        rows["value"] = np.asarray(pc.list_flatten(table["values"]))
        return rows

    @cached_property
    def registers(self) -> pd.DataFrame:
        """A row per operation on a register; empty if there were none."""
        table = self.history.further.get(REGISTERS, KINDS[REGISTERS].schema.empty_table())
        return self._named(table, REGISTER_FUNCTIONS)

    @cached_property
    def faults(self) -> pd.DataFrame:
        """A row per fault: what, on which targets, from when to when, and whether evidence shows its effect."""
        names = ("id", "fault", "summary", "injected", "healed", "took", "undone")
        rows = [{name: getattr(one, name) for name in names} for one in read_faults(self.directory)]
        return self._in_seconds(pd.DataFrame(rows, columns=list(names)), ("injected", "healed"))

    @cached_property
    def cluster(self) -> pd.DataFrame:
        """A row per observed change of the cluster: leaders, active controllers, ISRs."""
        names = ("time", "kind", "node", "topic", "partition", "epoch", "nodes")
        rows = [{name: getattr(one, name) for name in names} for one in read_cluster(self.directory)]
        return self._in_seconds(pd.DataFrame(rows, columns=list(names)), ("time",))

    def series(self, name: str) -> pd.DataFrame:
        """Return a table behind the report's plots: throughput, latency, errors, outages or partitions."""
        tables = Series.load(self.directory).tables
        if name not in tables:
            known = ", ".join(tables) or "none yet; squall check makes them"
            raise KeyError(f"{name!r} is not a table of {self.directory}; known are {known}")
        return tables[name].to_pandas()

    @property
    def _origin(self) -> int:
        return self.manifest.load_started or 0

    def _named(self, table: pa.Table, functions: dict[str, int]) -> pd.DataFrame:
        table = table.drop_columns([name for name in ("offsets", "values") if name in table.column_names])
        frame = table.to_pandas(types_mapper=_WHOLE.get)
        frame["f"] = _names(table["f"], functions)
        frame["type"] = _names(table["type"], TYPES)
        begun = frame["at"] if "at" in frame else frame["invoked"]
        frame["latency"] = (frame["completed"] - begun) / 1e9
        for name, second in _TIMES.items():
            if name in frame:
                frame[second] = (frame[name] - self._origin) / 1e9
        return frame

    def _in_seconds(self, frame: pd.DataFrame, names: tuple[str, ...]) -> pd.DataFrame:
        for name in names:
            frame[name] = (pd.to_numeric(frame[name]) - self._origin) / 1e9
        return frame


def _names(codes: pa.ChunkedArray, known: dict[str, int]) -> pd.Series[str]:
    """Replace codes by their names; there is a name for each code from 0 on."""
    names = pa.array(list(known), pa.string())
    return pa.DictionaryArray.from_arrays(codes.combine_chunks().cast(pa.int32()), names).to_pandas()
