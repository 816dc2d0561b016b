"""Every workload that a suite may name: its options, distinguished by `name`, and the resulting plan.

    workload: {name: idempotence, rate: 200/s, cut_every: 4}

Without a name it is `log`. The harness uses workloads only through this module and knows none by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Protocol

from pydantic import BeforeValidator, Field, TypeAdapter

from squall.workloads.idempotence import Cuts, CuttingConnector, IdempotenceOptions
from squall.workloads.list_append import ListAppendOptions, ListAppendWorkload
from squall.workloads.log import LogOptions, LogWorkload, Shard
from squall.workloads.metadata import MetadataOptions, MetadataWorkload
from squall.workloads.ports import Connector
from squall.workloads.produce_bench import ProduceBenchOptions, ProduceBenchWorkload

DEFAULT = "log"


AnyOptions = LogOptions | IdempotenceOptions | ListAppendOptions | MetadataOptions | ProduceBenchOptions


def _with_a_name(options: Any) -> Any:
    """Add the default name to options without one."""
    return {"name": DEFAULT, **options} if isinstance(options, Mapping) else options


WorkloadOptions = Annotated[AnyOptions, Field(discriminator="name"), BeforeValidator(_with_a_name)]
"""The options under `workload:` in a suite."""

_OPTIONS: TypeAdapter[AnyOptions] = TypeAdapter(WorkloadOptions)


class Workload(Protocol):
    """The plan of a workload over some topics."""

    @property
    def total_threads(self) -> int: ...

    def shard(self, worker: int, workers: int) -> Shard: ...

    def final_shard(self) -> Shard: ...


def options_from(data: Mapping[str, Any]) -> AnyOptions:
    """Parse options received as JSON."""
    return _OPTIONS.validate_python(data)


def workload_of(options: AnyOptions, topics: Mapping[str, int]) -> Workload:
    """The plan for these options and topics."""
    if isinstance(options, MetadataOptions):
        return MetadataWorkload(options, topics)
    if isinstance(options, LogOptions):
        return LogWorkload(options, topics)
    if isinstance(options, ListAppendOptions):
        return ListAppendWorkload(options.as_log(), topics, options.reads)
    if isinstance(options, ProduceBenchOptions):
        return ProduceBenchWorkload(options.as_log(), topics, options.arrivals)
    return LogWorkload(options.as_log(), topics)


def connector_of(options: AnyOptions, connector: Connector) -> Connector:
    """The connector for native clients of this workload."""
    if isinstance(options, IdempotenceOptions):
        return CuttingConnector(connector, Cuts(options.requests_per_cut))
    return connector
