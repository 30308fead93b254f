"""confluent-kafka against BOOTSTRAP."""

import os
import sys
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, ConsumerGroupTopicPartitions, IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from confluent_kafka import TopicCollection

from scenario import run, same, scenario, until

BOOTSTRAP = sys.argv[1]
admin = AdminClient({"bootstrap.servers": BOOTSTRAP})


def create(topic, partitions=1, **config):
    admin.create_topics([NewTopic(topic, partitions, -1, config=config)], operation_timeout=30)[topic].result()
    until(f"{topic} is seen", 20, lambda: len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == partitions)


def produce(topic, values, partition=0, key=None, headers=None, timestamp=0, **config):
    stored = []

    def delivered(error, message):
        if error is not None:
            raise KafkaException(error)
        stored.append(message.offset())

    producer = Producer({"bootstrap.servers": BOOTSTRAP, **config})
    for i, value in enumerate(values):
        producer.produce(topic, value, key=key, partition=partition, headers=headers, timestamp=timestamp and timestamp + i, on_delivery=delivered)
        producer.poll(0)
    same(producer.flush(30), 0)
    return stored


def consumer(group, **config):
    return Consumer(
        {"bootstrap.servers": BOOTSTRAP, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False, **config}
    )


def take(reader, count, seconds=30):
    read = []
    end = time.monotonic() + seconds
    while len(read) < count:
        message = reader.poll(0.2)
        if message is not None:
            if message.error():
                raise KafkaException(message.error())
            read.append(message)
        if time.monotonic() > end:
            raise AssertionError(f"{len(read)} of {count} records within {seconds} s")
    return read


def read_all(topic, count, partition=0, offset=OFFSET_BEGINNING):
    reader = consumer("reader")
    reader.assign([TopicPartition(topic, partition, offset)])
    read = take(reader, count)
    reader.close()
    return read


def values(messages):
    return [message.value().decode() for message in messages]


@scenario("records with key, headers and time")
def _():
    create("cc-records")
    same(produce("cc-records", ["a", "b"], key="k", headers=[("h", b"1"), ("h", b"2"), ("none", None)], timestamp=1_700_000_000_000), [0, 1])
    read = read_all("cc-records", 2)
    same(values(read), ["a", "b"])
    same(read[1].key(), b"k")
    same(read[1].headers(), [("h", b"1"), ("h", b"2"), ("none", None)])
    same([message.timestamp()[1] for message in read], [1_700_000_000_000, 1_700_000_000_001])


for codec in ("none", "gzip", "snappy", "lz4", "zstd"):

    def with_codec(codec=codec):
        create(f"cc-{codec}")
        sent = [f"{codec} {i} " * 20 for i in range(200)]
        produce(f"cc-{codec}", sent, **{"compression.type": codec, "linger.ms": 20})
        same(values(read_all(f"cc-{codec}", 200)), sent)

    scenario(f"codec {codec}")(with_codec)


@scenario("idempotent producer")
def _():
    create("cc-idempotent")
    same(produce("cc-idempotent", map(str, range(1000)), **{"enable.idempotence": True}), list(range(1000)))
    same(values(read_all("cc-idempotent", 1000)), [str(i) for i in range(1000)])


@scenario("an idempotent producer goes on across a topic that is made again")
def _():
    topic = "cc-again"
    producer = Producer({"bootstrap.servers": BOOTSTRAP, "enable.idempotence": True, "linger.ms": 0, "topic.metadata.refresh.interval.ms": 1000})
    for made in range(3):
        create(topic)
        stored = []

        def delivered(error, message):
            if error is not None:
                raise KafkaException(error)
            stored.append(message.value().decode())

        # Several batches on their way at the same time.
        sent = [f"{made} {i}" for i in range(300)]
        for i, value in enumerate(sent):
            producer.produce(topic, value, partition=0, on_delivery=delivered)
            producer.poll(0)
            time.sleep(0.001 if i % 10 == 0 else 0)
        same(producer.flush(30), 0)
        same(stored, sent)
        same(values(read_all(topic, 300)), sent)
        admin.delete_topics([topic], operation_timeout=30)[topic].result()
        until("it is gone", 20, lambda: topic not in admin.list_topics(timeout=10).topics)


@scenario("acks 0 and 1")
def _():
    create("cc-acks")
    produce("cc-acks", ["0"], acks=0)
    until("it is stored", 20, lambda: consumer("w").get_watermark_offsets(TopicPartition("cc-acks", 0), timeout=10) == (0, 1))
    produce("cc-acks", ["1"], acks=1)
    same(values(read_all("cc-acks", 2)), ["0", "1"])


@scenario("a record above the topic's limit")
def _():
    create("cc-limit", **{"max.message.bytes": "2000"})
    try:
        produce("cc-limit", ["x" * 5000])
    except KafkaException as error:
        same(error.args[0].code(), KafkaError.MSG_SIZE_TOO_LARGE)
    else:
        raise AssertionError("it was taken")


@scenario("watermarks, offsets by time, seek")
def _():
    create("cc-times")
    produce("cc-times", map(str, range(10)), timestamp=1_700_000_000_000)
    reader = consumer("times")
    same(reader.get_watermark_offsets(TopicPartition("cc-times", 0), timeout=10), (0, 10))
    at = reader.offsets_for_times([TopicPartition("cc-times", 0, 1_700_000_000_004)], timeout=10)
    same(at[0].offset, 4)
    after = reader.offsets_for_times([TopicPartition("cc-times", 0, 1_800_000_000_000)], timeout=10)
    same(after[0].offset, -1)
    reader.assign([TopicPartition("cc-times", 0, 7)])
    same(values(take(reader, 3)), ["7", "8", "9"])
    reader.seek(TopicPartition("cc-times", 0, 2))
    same(values(take(reader, 1)), ["2"])
    reader.close()


@scenario("a reader that waits is given what comes")
def _():
    create("cc-live")
    reader = consumer("live")
    reader.assign([TopicPartition("cc-live", 0, OFFSET_BEGINNING)])
    same(reader.poll(2), None)
    produce("cc-live", ["now"])
    same(values(take(reader, 1, 10)), ["now"])
    reader.close()


def resumes(name, **config):
    create(f"cc-{name}", 3)
    for partition in range(3):
        produce(f"cc-{name}", map(str, range(10)), partition=partition)
    first = consumer(f"cc-{name}", **config)
    first.subscribe([f"cc-{name}"])
    take(first, 30)
    first.commit(asynchronous=False)
    committed = first.committed([TopicPartition(f"cc-{name}", partition) for partition in range(3)], timeout=10)
    same([place.offset for place in committed], [10, 10, 10])
    first.close()
    produce(f"cc-{name}", ["more"], partition=1)
    second = consumer(f"cc-{name}", **config)
    second.subscribe([f"cc-{name}"])
    same(values(take(second, 1)), ["more"])
    second.close()


def shares(name, **config):
    create(f"cc-{name}", 4)
    one, two = consumer(f"cc-{name}", **config), consumer(f"cc-{name}", **config)
    for member in (one, two):
        member.subscribe([f"cc-{name}"])

    def held(*members):
        for member in members:
            member.poll(0.1)
        return [len(member.assignment()) for member in members]

    until("each has half", 50, lambda: held(one, two) == [2, 2])
    two.close()
    until("one has all", 50, lambda: held(one) == [4])
    one.close()


for protocol, config in {
    "range": {"partition.assignment.strategy": "range"},
    "roundrobin": {"partition.assignment.strategy": "roundrobin"},
    "cooperative-sticky": {"partition.assignment.strategy": "cooperative-sticky"},
    "consumer protocol": {"group.protocol": "consumer"},
}.items():
    slug = protocol.replace(" ", "-")
    scenario(f"group, {protocol}: commits and resumes")(lambda slug=slug, config=config: resumes(f"resume-{slug}", **config))
    scenario(f"group, {protocol}: two members share, one takes over")(lambda slug=slug, config=config: shares(f"share-{slug}", **config))


@scenario("group: automatic commit")
def _():
    create("cc-auto")
    produce("cc-auto", map(str, range(5)))
    reader = consumer("cc-auto", **{"enable.auto.commit": True, "auto.commit.interval.ms": 100})
    reader.subscribe(["cc-auto"])
    take(reader, 5)
    reader.close()
    same(consumer("cc-auto").committed([TopicPartition("cc-auto", 0)], timeout=10)[0].offset, 5)


@scenario("group: a static member comes back to its partitions")
def _():
    create("cc-static", 2)
    config = {"group.instance.id": "one", "session.timeout.ms": 30000}
    first = consumer("cc-static", **config)
    first.subscribe(["cc-static"])
    until("it has them", 40, lambda: first.poll(0.1) is None and len(first.assignment()) == 2)
    first.close()
    again = consumer("cc-static", **config)
    again.subscribe(["cc-static"])
    until("it has them again", 20, lambda: again.poll(0.1) is None and len(again.assignment()) == 2)
    again.close()


@scenario("admin: cluster")
def _():
    cluster = admin.describe_cluster().result()
    same(len(cluster.nodes), len(BOOTSTRAP.split(",")))
    same(cluster.controller is not None, True)


@scenario("admin: topics made, described, deleted; one that is there, one that is not")
def _():
    create("cc-made", 3)
    described = admin.describe_topics(TopicCollection(["cc-made"]))["cc-made"].result()
    same(len(described.partitions), 3)
    for name, make in {
        "TOPIC_ALREADY_EXISTS": lambda: admin.create_topics([NewTopic("cc-made", 1, -1)])["cc-made"],
        "UNKNOWN_TOPIC_OR_PART": lambda: admin.delete_topics(["cc-nobodys"])["cc-nobodys"],
        "TOPIC_EXCEPTION": lambda: admin.create_topics([NewTopic("no spaces", 1, -1)])["no spaces"],
    }.items():
        try:
            make().result()
        except KafkaException as error:
            same(error.args[0].name(), name)
        else:
            raise AssertionError(f"no {name}")
    admin.delete_topics(["cc-made"], operation_timeout=30)["cc-made"].result()
    until("it is gone", 20, lambda: "cc-made" not in admin.list_topics(timeout=10).topics)


@scenario("admin: partitions added")
def _():
    create("cc-grown")
    admin.create_partitions([NewPartitions("cc-grown", 4)])["cc-grown"].result()
    until("they are seen", 20, lambda: len(admin.list_topics("cc-grown", timeout=10).topics["cc-grown"].partitions) == 4)
    same(len(produce("cc-grown", ["x"], partition=3)), 1)


@scenario("admin: configuration")
def _():
    create("cc-config", **{"retention.ms": "1000000"})
    resource = ConfigResource(ResourceType.TOPIC, "cc-config")
    same(admin.describe_configs([resource])[resource].result()["retention.ms"].value, "1000000")
    entry = ConfigEntry("retention.ms", "2000000", incremental_operation=AlterConfigOpType.SET)
    change = ConfigResource(ResourceType.TOPIC, "cc-config", incremental_configs=[entry])
    admin.incremental_alter_configs([change])[change].result()
    until("it is changed", 20, lambda: admin.describe_configs([resource])[resource].result()["retention.ms"].value == "2000000")


@scenario("admin: list offsets")
def _():
    create("cc-offsets")
    produce("cc-offsets", map(str, range(6)), timestamp=1_700_000_000_000)
    place = TopicPartition("cc-offsets", 0)
    for spec, offset in ((OffsetSpec.earliest(), 0), (OffsetSpec.latest(), 6), (OffsetSpec.max_timestamp(), 5), (OffsetSpec.for_timestamp(1_700_000_000_003), 3)):
        same(admin.list_offsets({place: spec}, isolation_level=IsolationLevel.READ_UNCOMMITTED)[place].result().offset, offset)


@scenario("admin: records deleted")
def _():
    create("cc-cut")
    produce("cc-cut", map(str, range(10)))
    place = TopicPartition("cc-cut", 0, 4)
    same(admin.delete_records([place])[place].result().low_watermark, 4)
    same(values(read_all("cc-cut", 6)), ["4", "5", "6", "7", "8", "9"])


@scenario("admin: groups listed, described, offsets altered and listed, deleted")
def _():
    create("cc-group")
    produce("cc-group", map(str, range(5)))
    reader = consumer("cc-grouped", **{"client.id": "reader-1"})
    reader.subscribe(["cc-group"])
    take(reader, 5)
    reader.commit(asynchronous=False)
    described = admin.describe_consumer_groups(["cc-grouped"])["cc-grouped"].result()
    same(described.state.name, "STABLE")
    same([member.client_id for member in described.members], ["reader-1"])
    same([(place.topic, place.partition) for place in described.members[0].assignment.topic_partitions], [("cc-group", 0)])
    same("cc-grouped" in [group.group_id for group in admin.list_consumer_groups().result().valid], True)
    try:
        admin.delete_consumer_groups(["cc-grouped"])["cc-grouped"].result()
    except KafkaException as error:
        same(error.args[0].name(), "NON_EMPTY_GROUP")
    else:
        raise AssertionError("a group with members was deleted")
    reader.close()
    until("it is empty", 20, lambda: admin.describe_consumer_groups(["cc-grouped"])["cc-grouped"].result().state.name == "EMPTY")
    asked = ConsumerGroupTopicPartitions("cc-grouped", [TopicPartition("cc-group", 0, 2)])
    admin.alter_consumer_group_offsets([asked])["cc-grouped"].result()
    listed = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("cc-grouped")])["cc-grouped"].result()
    same([(place.topic, place.offset) for place in listed.topic_partitions], [("cc-group", 2)])
    admin.delete_consumer_groups(["cc-grouped"])["cc-grouped"].result()
    same("cc-grouped" in [group.group_id for group in admin.list_consumer_groups().result().valid], False)


run()
sys.stdout.flush()
os._exit(0)
