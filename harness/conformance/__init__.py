"""Whether the nodes of a cluster respond as Kafka's protocol promises: every API that clients use, asked on a topic of
its own, in a cluster without faults.

Faults find what is wrong with promises kept over time. Most of a broker's code serves a question that a load seldom
asks: a page of topics, a timestamp, an epoch, a request that has to be refused. So when all faults are over, this
client asks all of it and compares each response with what must follow from the requests before it.

* `client.py`         connections, versions, questions; the exception for a wrong response
* `topic.py`          the topic of a check, and the records that the check has appended
* `check.py`          which parts are asked, in which order
* `descriptions.py`   Metadata, DescribeCluster, DescribeTopicPartitions, DescribeQuorum, DescribeLogDirs, coordinators
* `api_versions.py`   ApiVersions: the same APIs in each version, and none that begins too late for older clients
* `quorum.py`         Vote and its kind: what a controller must refuse
* `topics.py`         CreateTopics, CreatePartitions, DeleteTopics
* `settings.py`       DescribeConfigs, IncrementalAlterConfigs, UpdateFeatures
* `effects.py`        settings of a topic, by what its leaders do
* `records.py`        Produce, InitProducerId, Fetch with and without sessions
* `promptness.py`     Produce and Fetch: answered as soon as they can be, and not when a timer ends
* `offsets.py`        ListOffsets, OffsetForLeaderEpoch, DeleteRecords
* `placement.py`      AlterPartitionReassignments, ListPartitionReassignments, ElectLeaders
"""
