"""Every workload that a suite may name: its options, distinguished by `name`, and the resulting plan.

    workload: {name: idempotence, rate: 200/s, cut_every: 4}

Without a name it is `log`. The harness uses workloads only through this module and knows none by its name. A workload
is declared once, as a `WorkloadKind`: ours in `WORKLOADS`, those of installed packages by entry points of the group
`squall.workloads`, which the harness finds and hands over (`plug_in`). A plugin is imported only when its name is used
(docs/writing-a-workload.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, Union, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import CoreSchema, PydanticKnownError, core_schema

from squall.workloads.clients.common.client import ClientFactory
from squall.workloads.clients.kits import Bootstrap, Library
from squall.workloads.core.ports import Connector, NoPlugins, Plugins
from squall.workloads.idempotence import Cuts, CuttingConnector, IdempotenceOptions
from squall.workloads.list_append import ListAppendOptions, ListAppendWorkload
from squall.workloads.log import LogOptions, LogWorkload, Shard
from squall.workloads.metadata import MetadataOptions, MetadataWorkload
from squall.workloads.produce_bench import ProduceBenchOptions, ProduceBenchWorkload
from squall.workloads.register import RegisterOptions, RegisterWorkload

DEFAULT = "log"
PROGRAM = "program"
"""The value of `client` of a workload whose clients are programs of their own (`clients/programs`)."""
TAG = "name"


class AnyOptions(Protocol):
    """What the harness asks of the options of any workload."""

    @property
    def name(self) -> str: ...

    @property
    def client(self) -> Library:
        """The library of its clients on hosts."""
        ...

    @property
    def producers(self) -> int:
        """The number that load workers divide among them."""
        ...

    @property
    def acks(self) -> Literal["all", "1", "0"]:
        """The acknowledgements that its sends request."""
        ...

    @property
    def idempotent(self) -> bool: ...

    @property
    def final_timeout(self) -> float:
        """The seconds that the final reads may take."""
        ...

    @property
    def operations(self) -> Any:
        """The operations that a suite lists; None if they are generated."""
        ...

    @property
    def in_words(self) -> str: ...

    @property
    def model_fields_set(self) -> set[str]: ...

    def model_dump(self) -> dict[str, Any]: ...

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Any: ...


class LoadOptions(BaseModel):
    """Common options of workloads, for those of installed packages. A subclass names the workload by its field
    `name: Literal["bursts"]`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    if TYPE_CHECKING:
        name: str

    client: Library = Field(default="confluent", description="the library of the clients on hosts")
    producers: int = Field(default=2, ge=1, le=64, description="producing clients")
    acks: Literal["all", "1", "0"] = Field(default="all", description="acknowledgements the producers ask for")
    idempotent: bool = Field(default=True, description="idempotent producers; needs acks: all")
    final_timeout: float = Field(default=60.0, gt=0, description="seconds the final reads may take")

    @property
    def operations(self) -> None:
        """None: the operations are generated, not listed."""

    @property
    def in_words(self) -> str:
        return f"{self.name}, {self.producers} producers"


class Workload(Protocol):
    """The plan of a workload over some topics."""

    @property
    def total_threads(self) -> int: ...

    def shard(self, worker: int, workers: int) -> Shard: ...

    def final_shard(self) -> Shard: ...


def unchanged(options: Any, connector: Connector) -> Connector:
    return connector


@dataclass(frozen=True)
class WorkloadKind:
    """The declaration of a workload: its options, its plan over topics, and what native clients connect by."""

    options: type[BaseModel]
    plan: Callable[[Any, Mapping[str, int]], Workload]
    connector: Callable[[Any, Connector], Connector] = unchanged
    simulation: bool = True
    """Whether it can run in simulation, whose clients are native ones."""
    clients: Callable[[Any, Bootstrap], ClientFactory] | None = None
    """Makes its clients for a cluster at these addresses; those of the library that the options name if None."""

    @property
    def name(self) -> str:
        (name,) = get_args(self.options.model_fields[TAG].annotation)
        return str(name)


WORKLOADS: tuple[WorkloadKind, ...] = (
    WorkloadKind(LogOptions, LogWorkload),
    WorkloadKind(
        IdempotenceOptions,
        lambda options, topics: LogWorkload(options.as_log(), topics),
        connector=lambda options, connector: CuttingConnector(connector, Cuts(options.requests_per_cut)),
    ),
    WorkloadKind(
        ListAppendOptions, lambda options, topics: ListAppendWorkload(options.as_log(), topics, options.reads)
    ),
    WorkloadKind(MetadataOptions, MetadataWorkload),
    WorkloadKind(
        ProduceBenchOptions, lambda options, topics: ProduceBenchWorkload(options.as_log(), topics, options.arrivals)
    ),
    WorkloadKind(RegisterOptions, RegisterWorkload, simulation=False),
)
"""The workloads of this package."""

WORKLOAD_NAMES = tuple(kind.name for kind in WORKLOADS)
OURS = tuple(kind.options for kind in WORKLOADS)


# --- workloads of installed packages -------------------------------------------------------------------------------

_plugins: Plugins = NoPlugins()
_loaded: list[type[BaseModel]] = []


def plug_in(plugins: Plugins) -> None:
    """Use the workloads of these packages beside those of this one."""
    global _plugins
    _plugins = plugins


def _plugin_kind(name: str) -> WorkloadKind:
    """The workload of an installed package. Raises ValueError, which says what is wrong with the package."""
    kind = _plugins.load(name)
    assert isinstance(kind, WorkloadKind)
    if kind.options not in _loaded:
        _loaded.append(kind.options)
    return kind


def wrong_with_workload(name: str, made: Any) -> str | None:
    """Why an object is not the declaration of a workload of this name; None if it is."""
    if not isinstance(made, WorkloadKind):
        return f"names {made!r}, which is no WorkloadKind"
    if not (isinstance(made.options, type) and issubclass(made.options, BaseModel)):
        return f"names a WorkloadKind whose options, {made.options!r}, are no pydantic model"
    field = made.options.model_fields.get(TAG)
    if field is None or get_args(field.annotation) != (name,):
        return f"names a WorkloadKind whose options do not have the field `name: Literal[{name!r}]`"
    needed = [one for one in vars(AnyOptions) if not one.startswith(("_", "model_"))]
    missing = [one for one in needed if one not in made.options.model_fields and not hasattr(made.options, one)]
    return f"names a WorkloadKind whose options lack {', '.join(missing)}, as LoadOptions has them" if missing else None


@dataclass(frozen=True)
class _OrPlugin:
    """Validates options that name a plugin by the plugin's own, and any other as the annotated union does."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_wrap_validator_function(self._validated, handler(source))

    def _validated(self, options: Any, as_ours: Callable[[Any], Any]) -> Any:
        if isinstance(options, BaseModel) and type(options) not in OURS:
            return options
        name = options.get(TAG) if isinstance(options, Mapping) else None
        if name in _plugins.names:
            return _adapter(_plugin_kind(str(name)).options).validate_python(options)
        try:
            return as_ours(options)
        except ValidationError as invalid:
            raise _with_plugins_listed(invalid) from None

    def models(self) -> Iterator[type[BaseModel]]:
        """The options of plugins that were used, beside those of the annotated union."""
        yield from _loaded

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        described = handler(schema)
        for name in _plugins.names:
            try:
                options = _plugin_kind(name).options
            except ValueError:
                continue
            of_plugin = handler(options.__pydantic_core_schema__)
            described["oneOf"].append(of_plugin)
            if "$ref" in of_plugin:
                described["discriminator"]["mapping"][name] = of_plugin["$ref"]
        return described


@cache
def _adapter(options: type[BaseModel]) -> TypeAdapter[Any]:
    """Validates by these options, with errors located as by a union of many."""
    either: Any = Annotated[Union[options, LogOptions], Field(discriminator=TAG)]  # noqa: UP007
    return TypeAdapter(either)


def _with_plugins_listed(invalid: ValidationError) -> Exception:
    """The same error; one about an unknown name lists the plugins among the known ones."""
    (first, *more) = invalid.errors(include_url=False)
    if more or first["type"] != "union_tag_invalid" or first["loc"] or not _plugins.names:
        return invalid
    context = first["ctx"]
    known = ", ".join((context["expected_tags"], *(f"'{name}'" for name in _plugins.names)))
    return PydanticKnownError("union_tag_invalid", {**context, "expected_tags": known})


# --- options and plans ---------------------------------------------------------------------------------------------


def _with_a_name(options: Any) -> Any:
    """Add the default name to options without one."""
    return {TAG: DEFAULT, **options} if isinstance(options, Mapping) else options


if TYPE_CHECKING:
    WorkloadOptions = AnyOptions
else:
    WorkloadOptions = Annotated[
        Union[OURS], Field(discriminator=TAG), _OrPlugin(), BeforeValidator(_with_a_name)  # noqa: UP007
    ]
"""The options under `workload:` in a suite."""

_OPTIONS: TypeAdapter[AnyOptions] = TypeAdapter(WorkloadOptions)


def options_from(data: Mapping[str, Any]) -> AnyOptions:
    """Parse options received as JSON."""
    return _OPTIONS.validate_python(data)


def kind_of(options: AnyOptions) -> WorkloadKind:
    """The workload to which these options belong."""
    return next((kind for kind in WORKLOADS if kind.options is type(options)), None) or _plugin_kind(options.name)


def workload_of(options: AnyOptions, topics: Mapping[str, int]) -> Workload:
    """The plan for these options and topics."""
    return kind_of(options).plan(options, topics)


def connector_of(options: AnyOptions, connector: Connector) -> Connector:
    """The connector for native clients of this workload."""
    return kind_of(options).connector(options, connector)
