"""Apache Kafka 3.9 with its metadata in ZooKeeper: brokers, one of which is the controller, and an ensemble.

    system = KafkaOnZooKeeper("3.9.2")               # cluster: {metadata: zookeeper}, system: {name: kafka, version: …}
    system.fetch(print)
    nodes = system.configure(inventory, places, settings)

Hosts of the group `zookeeper` run the servers of the ensemble, from the ZooKeeper that comes with Kafka's jars; they
are the processes that `harness/systems/zookeeper` defines for our own brokers. Kafka 4.0 has removed this mode.
"""

from __future__ import annotations

from collections.abc import Mapping

from squall.harness.errors import UsageError
from squall.harness.hosts.deploy import HostPaths
from squall.harness.hosts.ssh_access import resolve
from squall.harness.hosts.system import ClusterSettings, NodePlan, data_directory, number_nodes
from squall.harness.scenario.inventory import HostSpec, Inventory
from squall.harness.systems.kafka.launch import script_on_zookeeper
from squall.harness.systems.kafka.properties import broker_on_zookeeper, format_properties
from squall.harness.systems.kafka.system import ApacheKafka, files_of, process_of, texts
from squall.harness.systems.kafka.versions import ON_ZOOKEEPER, jar_list
from squall.harness.systems.zookeeper.system import connect_text, ensemble_of, server_plans

ROLES = ("broker",)


class KafkaOnZooKeeper(ApacheKafka):
    """Brokers of Apache Kafka, and the servers of an ensemble."""

    def configure(
        self, inventory: Inventory, places: Mapping[str, HostPaths], settings: ClusterSettings
    ) -> dict[str, NodePlan]:
        if self.version not in ON_ZOOKEEPER:
            raise UsageError(f"Apache Kafka {self.version} has no ZooKeeper mode; {', '.join(ON_ZOOKEEPER)} has")
        self.refuse_settings(settings)
        servers = ensemble_of(inventory)
        connect, numbered = connect_text(servers), number_nodes(inventory)
        plans = {
            host.name: self._broker(host, numbered[host.name], connect, places[host.name], settings, inventory)
            for host in inventory.brokers
        }
        return plans | server_plans(inventory, servers, places, settings.run_id, jar_list(self.version))

    def _broker(
        self,
        host: HostSpec,
        broker_id: int,
        connect: str,
        place: HostPaths,
        settings: ClusterSettings,
        inventory: Inventory,
    ) -> NodePlan:
        directory, address = place.run_directory(settings.run_id), resolve(host)
        data = data_directory(host, directory, settings.run_id)
        config, launcher, log = files_of(directory)
        properties = broker_on_zookeeper(
            broker_id=broker_id,
            address=address,
            connect=connect,
            data=data,
            rack=host.rack,
            brokers=len(inventory.brokers),
            config=texts(settings),
            version=self.version,
        )
        text = script_on_zookeeper(
            library=place.programs,
            jars=self.jar_names(),
            directory=directory,
            data=data,
            config=config,
            jvm=self.jvm,
            connect=connect,
            cluster_id=settings.cluster_id,
        )
        return NodePlan(
            host=host.name,
            node_id=broker_id,
            roles=ROLES,
            address=address,
            files={config: format_properties(properties), launcher: text},
            directories=(directory, data),
            process=process_of(directory, data, ROLES),
            logs=(log, config, launcher),
        )
