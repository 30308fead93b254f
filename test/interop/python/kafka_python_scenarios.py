"""kafka-python against BOOTSTRAP."""

import os
import sys
import threading
import time

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from kafka.errors import MessageSizeTooLargeError, TopicAlreadyExistsError, UnknownTopicOrPartitionError

from scenario import run, same, scenario, until

BOOTSTRAP = sys.argv[1].split(",")
admin = KafkaAdminClient(bootstrap_servers=BOOTSTRAP)


def create(topic, partitions=1, **config):
    admin.create_topics([NewTopic(topic, num_partitions=partitions, replication_factor=-1, topic_configs=config)])
    until(f"{topic} is seen", 20, lambda: topic in admin.list_topics())


def produce(topic, values, partition=0, key=None, headers=(), timestamp=None, **config):
    producer = KafkaProducer(bootstrap_servers=BOOTSTRAP, **config)
    try:
        futures = [
            producer.send(topic, value.encode(), key=key, headers=list(headers), partition=partition, timestamp_ms=timestamp and timestamp + i)
            for i, value in enumerate(values)
        ]
        return [future.get(timeout=30).offset for future in futures]
    finally:
        producer.close(timeout=5)


def consumer(*topics, **config):
    return KafkaConsumer(*topics, bootstrap_servers=BOOTSTRAP, auto_offset_reset="earliest", enable_auto_commit=False, **config)


def take(reader, count, seconds=30):
    read = []
    end = time.monotonic() + seconds
    while len(read) < count:
        for records in reader.poll(timeout_ms=200).values():
            read.extend(records)
        if time.monotonic() > end:
            raise AssertionError(f"{len(read)} of {count} records within {seconds} s")
    return read


def read_all(topic, count, partition=0, offset=0):
    reader = consumer()
    reader.assign([TopicPartition(topic, partition)])
    reader.seek(TopicPartition(topic, partition), offset)
    read = take(reader, count)
    reader.close()
    return read


def values(records):
    return [record.value.decode() for record in records]


@scenario("records with key, headers and time")
def _():
    create("kp-records")
    same(produce("kp-records", ["a", "b"], key=b"k", headers=[("h", b"1"), ("h", b"2")], timestamp=1_700_000_000_000), [0, 1])
    read = read_all("kp-records", 2)
    same(values(read), ["a", "b"])
    same(read[1].key, b"k")
    same(list(read[1].headers), [("h", b"1"), ("h", b"2")])
    same([record.timestamp for record in read], [1_700_000_000_000, 1_700_000_000_001])


for codec in ("none", "gzip", "snappy", "lz4", "zstd"):

    def with_codec(codec=codec):
        create(f"kp-{codec}")
        sent = [f"{codec} {i} " * 20 for i in range(200)]
        produce(f"kp-{codec}", sent, compression_type=None if codec == "none" else codec, linger_ms=20)
        same(values(read_all(f"kp-{codec}", 200)), sent)

    scenario(f"codec {codec}")(with_codec)


@scenario("idempotent producer")
def _():
    create("kp-idempotent")
    same(produce("kp-idempotent", map(str, range(500)), enable_idempotence=True), list(range(500)))
    same(values(read_all("kp-idempotent", 500)), [str(i) for i in range(500)])


@scenario("an idempotent producer goes on across a topic that is made again")
def _():
    topic = "kp-again"
    producer = KafkaProducer(bootstrap_servers=BOOTSTRAP, enable_idempotence=True, metadata_max_age_ms=1000)
    for made in range(3):
        create(topic)
        sent = [f"{made} {i}" for i in range(5)]
        for value in sent:
            producer.send(topic, value.encode(), partition=0).get(timeout=30)
        same(values(read_all(topic, 5)), sent)
        admin.delete_topics([topic])
        until("it is gone", 20, lambda: topic not in admin.list_topics())
    producer.close(timeout=5)


@scenario("acks 0 and 1")
def _():
    create("kp-acks")
    produce("kp-acks", ["0"], acks=0, enable_idempotence=False)
    reader = consumer()
    until("it is stored", 20, lambda: reader.end_offsets([TopicPartition("kp-acks", 0)])[TopicPartition("kp-acks", 0)] == 1)
    reader.close()
    produce("kp-acks", ["1"], acks=1, enable_idempotence=False)
    same(values(read_all("kp-acks", 2)), ["0", "1"])


@scenario("a record above the topic's limit")
def _():
    create("kp-limit", **{"max.message.bytes": "2000"})
    try:
        produce("kp-limit", ["x" * 5000])
    except MessageSizeTooLargeError:
        return
    raise AssertionError("it was taken")


@scenario("ends, offsets by time, seek")
def _():
    create("kp-times")
    place = TopicPartition("kp-times", 0)
    produce("kp-times", map(str, range(10)), timestamp=1_700_000_000_000)
    reader = consumer()
    same(reader.beginning_offsets([place]), {place: 0})
    same(reader.end_offsets([place]), {place: 10})
    same(reader.offsets_for_times({place: 1_700_000_000_004})[place].offset, 4)
    same(reader.offsets_for_times({place: 1_800_000_000_000})[place], None)
    reader.assign([place])
    reader.seek(place, 7)
    same(values(take(reader, 3)), ["7", "8", "9"])
    reader.seek_to_beginning(place)
    same(reader.position(place), 0)
    reader.close()


@scenario("a reader that waits is given what comes")
def _():
    create("kp-live")
    reader = consumer()
    reader.assign([TopicPartition("kp-live", 0)])
    same(reader.poll(timeout_ms=2000), {})
    produce("kp-live", ["now"])
    same(values(take(reader, 1, 10)), ["now"])
    reader.close()


@scenario("group: commits and resumes")
def _():
    create("kp-resume", 3)
    for partition in range(3):
        produce("kp-resume", map(str, range(10)), partition=partition)
    first = consumer("kp-resume", group_id="kp-resume")
    take(first, 30)
    first.commit()
    same([first.committed(TopicPartition("kp-resume", partition)) for partition in range(3)], [10, 10, 10])
    first.close()
    produce("kp-resume", ["more"], partition=1)
    second = consumer("kp-resume", group_id="kp-resume")
    same(values(take(second, 1)), ["more"])
    second.commit({TopicPartition("kp-resume", 0): OffsetAndMetadata(3, "why", -1)})
    same(second.committed(TopicPartition("kp-resume", 0), metadata=True).metadata, "why")
    second.close()


@scenario("group: two members share, one takes over")
def _():
    create("kp-share", 4)
    held, stops = {}, {}

    def member(name):
        reader = consumer("kp-share", group_id="kp-share", heartbeat_interval_ms=500)
        while not stops[name].is_set():
            reader.poll(timeout_ms=200)
            held[name] = len(reader.assignment())
        reader.close()

    threads = {}
    for name in ("one", "two"):
        stops[name] = threading.Event()
        threads[name] = threading.Thread(target=member, args=(name,), daemon=True)
        threads[name].start()

    def slowly(holds):
        time.sleep(0.1)
        return holds

    until("each has half", 40, lambda: slowly(held == {"one": 2, "two": 2}))
    stops["two"].set()
    threads["two"].join()
    until("one has all", 40, lambda: slowly(held["one"] == 4))
    stops["one"].set()
    threads["one"].join()


@scenario("admin: cluster")
def _():
    cluster = admin.describe_cluster()
    same(len(cluster["brokers"]), len(BOOTSTRAP))


@scenario("admin: topics made, described, deleted; one that is there, one that is not")
def _():
    create("kp-made", 3)
    same(len(admin.describe_topics(["kp-made"])[0]["partitions"]), 3)
    for error, make in {
        TopicAlreadyExistsError: lambda: admin.create_topics([NewTopic("kp-made", num_partitions=1, replication_factor=-1)]),
        UnknownTopicOrPartitionError: lambda: admin.delete_topics(["kp-nobodys"]),
    }.items():
        try:
            make()
        except error:
            continue
        raise AssertionError(f"no {error}")
    admin.delete_topics(["kp-made"])
    until("it is gone", 20, lambda: "kp-made" not in admin.list_topics())


@scenario("admin: partitions added")
def _():
    create("kp-grown")
    admin.create_partitions({"kp-grown": NewPartitions(4)})
    until("they are seen", 20, lambda: len(admin.describe_topics(["kp-grown"])[0]["partitions"]) == 4)
    same(len(produce("kp-grown", ["x"], partition=3)), 1)


@scenario("admin: configuration")
def _():
    create("kp-config", **{"retention.ms": "1000000"})

    def retention():
        return "1000000" in str(admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, "kp-config")]))

    same(retention(), True)
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, "kp-config", configs={"retention.ms": "2000000"})])
    until("it is changed", 20, lambda: not retention())


@scenario("admin: records deleted")
def _():
    create("kp-cut")
    produce("kp-cut", map(str, range(10)))
    admin.delete_records({TopicPartition("kp-cut", 0): 4})
    same(values(read_all("kp-cut", 6, offset=4)), ["4", "5", "6", "7", "8", "9"])


@scenario("admin: groups listed, described, their offsets, deleted")
def _():
    create("kp-group")
    produce("kp-group", map(str, range(5)))
    reader = consumer("kp-group", group_id="kp-grouped", client_id="reader-1")
    take(reader, 5)
    reader.commit()
    same("reader-1" in str(admin.describe_groups(["kp-grouped"])), True)
    same("kp-grouped" in str(admin.list_groups()), True)
    reader.close()
    same("5" in str(admin.list_group_offsets("kp-grouped")), True)
    admin.delete_groups(["kp-grouped"])
    same("kp-grouped" in str(admin.list_groups()), False)


run()
sys.stdout.flush()
os._exit(0)
