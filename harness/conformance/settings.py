"""DescribeConfigs and IncrementalAlterConfigs: settings are what was set last, and name their source. UpdateFeatures:
all of a request, or nothing.
"""

from __future__ import annotations

from functools import partial

from squall.harness.conformance.api_versions import ELIGIBLE_LEADERS, LEVEL_ZERO_SINCE, levels_of
from squall.harness.conformance.client import NOBODY, Address, ConformanceClient, expect, expect_error
from squall.harness.conformance.topic import CheckedTopic
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from squall.nodes.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from squall.nodes.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from squall.nodes.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

TOPIC, BROKER, NO_KIND = 2, 4, 1
NO_NUMBERS = ("²", "1" * 5000)
"""A character that Unicode counts among the digits, and more digits than Python takes for a number."""
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
TOPIC_SOURCE, CLUSTER_SOURCE, STATIC_SOURCE, DEFAULT_SOURCE = 1, 3, 4, 5
ALTERED, OTHER = "retention.ms", "index.interval.bytes"
LIST, ITEMS = "cleanup.policy", ("delete", "compact")
MIN_ISR = "min.insync.replicas"
IN_FILE, THROTTLE = "log.dirs", "leader.replication.throttled.rate"
CLUSTER = ""
"""The name of the resource that stands for all brokers."""
LOWERED = ELIGIBLE_LEADERS
"""The feature whose level may be lowered."""
UPGRADE, SAFE_DOWNGRADE = 1, 2
VALIDATED_SINCE = 1
SECONDS_MS = 5000


async def described(client: ConformanceClient, topic: CheckedTopic) -> None:
    """What the topic was created with comes from the topic, all else from elsewhere."""
    for broker, address in topic.brokers.items():
        configs = await described_configs(client, address, TOPIC, topic.name)
        ours = {name: one.value for name, one in configs.items() if one.config_source == TOPIC_SOURCE}
        expect(address, f"the settings of {topic.name}", ours, topic.settings)
        sources = {one.config_source for name, one in configs.items() if name not in topic.settings}
        strange = sources - {CLUSTER_SOURCE, STATIC_SOURCE, DEFAULT_SOURCE}
        expect(address, "sources of settings that the topic does not have", strange, set())
        wanted = sorted(client.rng.sample(sorted(configs), 2))
        chosen = await described_configs(client, address, TOPIC, topic.name, wanted)
        expect(address, "settings asked for by name", sorted(chosen), wanted)
        own = await described_configs(client, address, BROKER, str(broker))
        sources = {one.config_source for one in own.values()}
        expect(address, "sources of a broker's settings", TOPIC_SOURCE in sources, False)
        expect(address, "whether a broker's settings come from its file", STATIC_SOURCE in sources, True)
    address = client.any_broker()
    for kind, name, error in (
        (TOPIC, f"{topic.name}-unknown", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (BROKER, "none", ErrorCode.INVALID_REQUEST),
        (1, "none", ErrorCode.INVALID_REQUEST),
    ):
        request = DescribeConfigsRequest([DescribeConfigsResource(kind, name, None)])
        response = await client.ask(address, request, DescribeConfigsResponse)
        codes = [one.error_code for one in response.results]
        expect(address, f"to describe resource type {kind}, {name}", codes, [int(error)])


async def altered(client: ConformanceClient, topic: CheckedTopic) -> None:
    """A setting is altered, by all operations, and shown by every broker; a refused one changes nothing."""
    address, rng = client.any_broker(), client.rng
    for asked, error in (
        ([AlterableConfig(ALTERED, SET, "never")], ErrorCode.INVALID_CONFIG),
        ([AlterableConfig("no.such.setting", SET, "1")], ErrorCode.INVALID_CONFIG),
        ([AlterableConfig(ALTERED, APPEND, "1")], ErrorCode.INVALID_CONFIG),
        ([AlterableConfig(ALTERED, SUBTRACT, "1")], ErrorCode.INVALID_CONFIG),
        ([AlterableConfig(ALTERED, SET, "1"), AlterableConfig(ALTERED, SET, "2")], ErrorCode.INVALID_REQUEST),
    ):
        expect_error(address, f"to alter {asked}", await _alter(client, address, topic.name, asked), error)
    resource = AlterConfigsResource(TOPIC, topic.name, [AlterableConfig(ALTERED, SET, "1")])
    twice = await client.ask(address, IncrementalAlterConfigsRequest([resource] * 2), IncrementalAlterConfigsResponse)
    codes = {one.error_code for one in twice.responses}
    expect(address, f"to alter {topic.name} twice in a request", codes, {int(ErrorCode.INVALID_REQUEST)})
    unknown = await _alter(client, address, f"{topic.name}-unknown", [AlterableConfig(ALTERED, SET, "1")])
    expect_error(address, "to alter an unknown topic", unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    value = str(rng.randint(10**8, 10**9))
    wanted = [AlterableConfig(ALTERED, SET, value), AlterableConfig(OTHER, SET, str(rng.randint(10**5, 10**6)))]
    expect_error(
        address, "to validate", await _alter(client, address, topic.name, wanted, validate_only=True), ErrorCode.NONE
    )
    await await_settings(client, topic)
    expect_error(address, "to alter", await _alter(client, address, topic.name, wanted), ErrorCode.NONE)
    topic.settings |= {one.name: one.value or "" for one in wanted}
    await await_settings(client, topic)
    wanted = [AlterableConfig(OTHER, DELETE, None), AlterableConfig(LIST, SET, ITEMS[0])]
    expect_error(address, "to alter", await _alter(client, address, topic.name, wanted), ErrorCode.NONE)
    del topic.settings[OTHER]
    topic.settings[LIST] = ITEMS[0]
    await await_settings(client, topic)
    for operation, item in ((APPEND, ITEMS[0]), (SUBTRACT, ITEMS[1])):
        wanted = [AlterableConfig(LIST, operation, item)]
        expect_error(address, f"to alter {wanted}", await _alter(client, address, topic.name, wanted), ErrorCode.NONE)
        await await_settings(client, topic)


async def of_nobody(client: ConformanceClient, topic: CheckedTopic) -> None:
    """A broker's directories cannot be altered, nor any setting of a broker or a topic that does not exist.

    A throttle may be taken away from a broker that has none.
    """
    address = client.any_broker()
    broker = str(_id_of(topic, address))
    in_file, throttle = AlterableConfig(IN_FILE, SET, "/nowhere"), AlterableConfig(THROTTLE, DELETE, None)
    nobody = (ErrorCode.INVALID_REQUEST, ErrorCode.BROKER_ID_NOT_REGISTERED)
    for kind, name, asked, errors in (
        (BROKER, broker, [in_file], (ErrorCode.INVALID_REQUEST,)),
        (BROKER, broker, [throttle, in_file], (ErrorCode.INVALID_REQUEST,)),
        (BROKER, broker, [throttle], (ErrorCode.NONE,)),
        (BROKER, str(NOBODY), [throttle], nobody),
        (BROKER, str(NOBODY), [in_file], nobody),
        (BROKER, "none", [throttle], (ErrorCode.INVALID_REQUEST,)),
        (BROKER, "none", [in_file], (ErrorCode.INVALID_REQUEST,)),
        *((BROKER, name, [in_file], (ErrorCode.INVALID_REQUEST,)) for name in NO_NUMBERS),
        (TOPIC, broker, [AlterableConfig(ALTERED, SET, "1")], (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,)),
        (NO_KIND, broker, [throttle], (ErrorCode.INVALID_REQUEST,)),
    ):
        answer = await _alter(client, address, name, asked, kind=kind)
        expect_error(address, f"to alter {asked} of {name!r}, a resource of type {kind}", answer, *errors)


async def alter(client: ConformanceClient, topic: CheckedTopic, name: str, value: str | None) -> None:
    """Give a topic a setting, or take it away, and wait until every broker shows that."""
    address = client.any_broker()
    wanted = [AlterableConfig(name, DELETE if value is None else SET, value)]
    expect_error(address, f"to alter {wanted}", await _alter(client, address, topic.name, wanted), ErrorCode.NONE)
    topic.settings.pop(name, None)
    if value is not None:
        topic.settings[name] = value
    await await_settings(client, topic)


async def defaulted(client: ConformanceClient, topic: CheckedTopic) -> None:
    """The cluster may have a default of its own, which every broker shows; an invalid one changes nothing.

    It is set to what it is, and taken away again unless the cluster had it before.
    """
    address = client.any_broker()
    before = (await described_configs(client, address, BROKER, str(_id_of(topic, address)), [MIN_ISR]))[MIN_ISR]
    refused = await _alter(client, address, CLUSTER, [AlterableConfig(MIN_ISR, SET, "none")], kind=BROKER)
    expect(address, f"whether {MIN_ISR}=none is refused as a default", refused != ErrorCode.NONE, True)
    wanted = [AlterableConfig(MIN_ISR, SET, before.value)]
    answer = await _alter(client, address, CLUSTER, wanted, kind=BROKER)
    expect_error(address, f"to alter {wanted} for all", answer, ErrorCode.NONE)
    await _await_default(client, topic, before.value, CLUSTER_SOURCE)
    if before.config_source != CLUSTER_SOURCE:
        wanted = [AlterableConfig(MIN_ISR, DELETE, None)]
        answer = await _alter(client, address, CLUSTER, wanted, kind=BROKER)
        expect_error(address, f"to alter {wanted} for all", answer, ErrorCode.NONE)
        await _await_default(client, topic, before.value, before.config_source)


def _id_of(topic: CheckedTopic, address: Address) -> int:
    return next(broker for broker, one in topic.brokers.items() if one == address)


async def _await_default(client: ConformanceClient, topic: CheckedTopic, value: str | None, source: int) -> None:
    """Wait until every broker shows this default, and where it comes from."""

    async def attempt() -> None:
        for broker, address in topic.brokers.items():
            found = (await described_configs(client, address, BROKER, str(broker), [MIN_ISR]))[MIN_ISR]
            told = (found.value, found.config_source)
            expect(address, f"the default of {MIN_ISR} and its source", told, (value, source))

    await client.settled(attempt)


async def features(client: ConformanceClient, topic: CheckedTopic) -> None:
    """An update of an unknown feature is refused, and so is the one beside it; one to the present level is accepted."""
    address = client.any_broker()
    if not await client.serves(address, ApiKey.UPDATE_FEATURES):
        return
    update = FeatureUpdateKey("no.such.feature", 1)
    request = UpdateFeaturesRequest(timeout_ms=SECONDS_MS, feature_updates=[update])
    response = await client.ask(address, request, UpdateFeaturesResponse)
    codes = [response.error_code, *(one.error_code for one in response.results)]
    refused = int(ErrorCode.INVALID_UPDATE_VERSION) in codes or int(ErrorCode.INVALID_REQUEST) in codes
    expect(address, f"whether an unknown feature is refused ({codes})", refused, True)
    versions = ApiVersionsRequest(client_software_name="squall", client_software_version="0")
    announced = await client.ask(address, versions, ApiVersionsResponse, since=LEVEL_ZERO_SINCE)
    known = [FeatureUpdateKey(one.name, one.max_version_level) for one in announced.finalized_features]
    request = UpdateFeaturesRequest(timeout_ms=SECONDS_MS, feature_updates=[*known[:1], update])
    response = await client.ask(address, request, UpdateFeaturesResponse)
    made = not response.error_code and any(not one.error_code for one in response.results)
    expect(address, f"whether anything is made beside a refused update ({response})", made, False)
    request = UpdateFeaturesRequest(timeout_ms=SECONDS_MS, feature_updates=known)
    response = await client.ask(address, request, UpdateFeaturesResponse)
    codes = [response.error_code, *(one.error_code for one in response.results)]
    expect(address, f"the errors of an update to the levels that there are ({response})", set(codes), {0})
    if any(one.feature == LOWERED and one.max_version_level > 0 for one in known):
        await _lowered(client, address)
        await _same_min_isr(client, topic)
    if any(one.name == LOWERED and one.max_version > 0 for one in announced.supported_features):
        await _switched(client, topic)


async def _switched(client: ConformanceClient, topic: CheckedTopic) -> None:
    """Lower a level to 0 and raise it again, or the other way round: every node then announces it.

    The cluster's min ISR is taken away again if only the raise has set it.
    """
    address = client.any_broker()
    level = (await levels_of(client, address)).get(LOWERED, 0)
    min_isr = (await described_configs(client, address, BROKER, str(_id_of(topic, address)), [MIN_ISR]))[MIN_ISR]
    for wanted in (0, 1) if level else (1, 0):
        kind = UPGRADE if wanted else SAFE_DOWNGRADE
        update = FeatureUpdateKey(LOWERED, wanted, upgrade_type=kind)
        request = UpdateFeaturesRequest(timeout_ms=SECONDS_MS, feature_updates=[update])
        response = await client.ask(address, request, UpdateFeaturesResponse, since=VALIDATED_SINCE)
        codes = [response.error_code, *(one.error_code for one in response.results)]
        expect(address, f"the errors of an update of {LOWERED} to {wanted} ({response})", set(codes), {0})
        await client.settled(partial(_all_announce, client, wanted))
    if min_isr.config_source != CLUSTER_SOURCE:
        answer = await _alter(client, address, CLUSTER, [AlterableConfig(MIN_ISR, DELETE, None)], kind=BROKER)
        expect_error(address, f"to take {MIN_ISR} away from all", answer, ErrorCode.NONE)
        await _await_default(client, topic, min_isr.value, min_isr.config_source)


async def _all_announce(client: ConformanceClient, level: int) -> None:
    """Expect this level of the feature at every node."""
    for address in (*client.brokers, *client.controllers):
        announced = (await levels_of(client, address)).get(LOWERED, 0)
        expect(address, f"the level of {LOWERED} after an update", announced, level)


async def _lowered(client: ConformanceClient, address: Address) -> None:
    """A level may be lowered where the request says that it is a downgrade. Nothing is changed here."""
    for kind, asked, allowed in ((UPGRADE, "an upgrade", False), (SAFE_DOWNGRADE, "a safe downgrade", True)):
        update = FeatureUpdateKey(LOWERED, 0, upgrade_type=kind)
        request = UpdateFeaturesRequest(timeout_ms=SECONDS_MS, feature_updates=[update], validate_only=True)
        response = await client.ask(address, request, UpdateFeaturesResponse, since=VALIDATED_SINCE)
        codes = [response.error_code, *(one.error_code for one in response.results)]
        expect(address, f"whether {LOWERED} may be lowered by {asked} ({response})", set(codes) == {0}, allowed)


async def _same_min_isr(client: ConformanceClient, topic: CheckedTopic) -> None:
    """Controllers and brokers decide by one min ISR: it is set for the cluster, not in each node's file (KIP-966)."""
    for broker, address in topic.brokers.items():
        configs = await described_configs(client, address, BROKER, str(broker), [MIN_ISR])
        source = configs[MIN_ISR].config_source
        expect(address, f"where {MIN_ISR} comes from, with {LOWERED}", source, CLUSTER_SOURCE)


async def await_settings(client: ConformanceClient, topic: CheckedTopic) -> None:
    """Wait until every broker shows these settings of the topic, and no others of its own."""

    async def attempt() -> None:
        for address in client.brokers:
            configs = await described_configs(client, address, TOPIC, topic.name)
            ours = {name: one.value for name, one in configs.items() if one.config_source == TOPIC_SOURCE}
            expect(address, f"the settings of {topic.name}", ours, topic.settings)

    await client.settled(attempt)


async def described_configs(
    client: ConformanceClient, address: Address, kind: int, name: str, wanted: list[str] | None = None
) -> dict[str, DescribeConfigsResourceResult]:
    request = DescribeConfigsRequest([DescribeConfigsResource(kind, name, wanted)])
    response = await client.ask(address, request, DescribeConfigsResponse, since=1)
    told = [(one.error_code, one.resource_type, one.resource_name) for one in response.results]
    expect(address, "the resources of DescribeConfigs", told, [(0, kind, name)])
    return {one.name: one for one in response.results[0].configs}


async def _alter(
    client: ConformanceClient,
    address: Address,
    name: str,
    configs: list[AlterableConfig],
    *,
    kind: int = TOPIC,
    validate_only: bool = False,
) -> int:
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(kind, name, configs)], validate_only)
    response = await client.ask(address, request, IncrementalAlterConfigsResponse)
    told = [(one.resource_type, one.resource_name) for one in response.responses]
    expect(address, "the resources of IncrementalAlterConfigs", told, [(kind, name)])
    return response.responses[0].error_code
