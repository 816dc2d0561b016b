"""Open a lake in a notebook: `squall.results.load_lake()`. Tables as pandas frames without Spark, queries with it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from squall.results.lake.schema import TABLES
from squall.results.lake.store import Lake
from squall.results.lake.views import open_views

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class OpenLake:
    """A lake to explore. `lake.runs`, `lake.faults` and so on are pandas frames; `sql` asks Spark."""

    lake: Lake

    def table(self, name: str, *, since: str = "") -> pd.DataFrame:
        """Return a table as pandas; `since` a day, such as `2026-11-01`. Raises KeyError for an unknown table."""
        if name not in TABLES:
            raise KeyError(f"{name!r} is not a table of the lake; known are {', '.join(TABLES)}")
        return self.lake.table(name, since=since).to_pandas()

    def __getattr__(self, name: str) -> pd.DataFrame:
        if name not in TABLES:
            raise AttributeError(f"{name!r} is not a table of the lake; known are {', '.join(TABLES)}")
        return self.table(name)

    def sql(self, query: str, spark: SparkSession) -> DataFrame:
        """Ask a query of the lake's tables and views, on a Spark session of yours."""
        open_views(self.lake, spark)
        return spark.sql(query)


def open_lake(root: Path | str) -> OpenLake:
    """Open a lake. Raises FileNotFoundError if there is none."""
    lake = Lake(Path(root))
    if not lake.exists:
        raise FileNotFoundError(f"{root}: is not a lake; runs are added to one by squall lake rebuild RUNS")
    return OpenLake(lake)
