"""kafka-python as a client of the matrix: see client.ts."""

import base64
import itertools
import json
import sys

from kafka import KafkaConsumer, KafkaProducer, TopicPartition


def decode(text):
    return None if text is None else base64.b64decode(text)


def encode(data):
    return None if data is None else base64.b64encode(data).decode()


def produce(bootstrap, topic):
    sent = [json.loads(line) for line in sys.stdin]
    for codec, records in itertools.groupby(sent, lambda record: record["codec"]):
        producer = KafkaProducer(
            bootstrap_servers=bootstrap, acks="all", compression_type=None if codec == "none" else codec, linger_ms=50
        )
        futures = [
            producer.send(
                topic,
                value=decode(record["value"]),
                key=decode(record["key"]),
                headers=[(name, decode(value)) for name, value in record["headers"]],
                partition=record["partition"],
                timestamp_ms=record["timestamp"],
            )
            for record in records
        ]
        for future in futures:
            stored = future.get(timeout=30)
            print(json.dumps({"partition": stored.partition, "offset": stored.offset}))
        producer.close()


def consume(bootstrap, topic, count):
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=30000, enable_auto_commit=False)
    partitions = [TopicPartition(topic, partition) for partition in consumer.partitions_for_topic(topic)]
    consumer.assign(partitions)
    consumer.seek_to_beginning(*partitions)
    for message in itertools.islice(consumer, count):
        print(
            json.dumps(
                {
                    "partition": message.partition,
                    "offset": message.offset,
                    "timestamp": message.timestamp,
                    "key": encode(message.key),
                    "value": encode(message.value),
                    "headers": [[name, encode(value)] for name, value in message.headers],
                }
            )
        )
    consumer.close()


if sys.argv[1] == "produce":
    produce(sys.argv[2], sys.argv[3])
else:
    consume(sys.argv[2], sys.argv[3], int(sys.argv[4]))
