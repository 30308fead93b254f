"""confluent-kafka as a client of the matrix: see client.ts."""

import base64
import json
import sys

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition


def decode(text):
    return None if text is None else base64.b64decode(text)


def encode(data):
    return None if data is None else base64.b64encode(data).decode()


def produce(bootstrap, topic):
    sent = [json.loads(line) for line in sys.stdin]
    places = [None] * len(sent)

    def keep(i):
        def delivered(error, message):
            if error is not None:
                raise RuntimeError(str(error))
            places[i] = {"partition": message.partition(), "offset": message.offset()}

        return delivered

    producer, codec = None, None
    for i, record in enumerate(sent):
        if record["codec"] != codec:
            if producer is not None:
                producer.flush()
            codec = record["codec"]
            producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "compression.type": codec, "linger.ms": 50})
        producer.produce(
            topic,
            value=decode(record["value"]),
            key=decode(record["key"]),
            partition=record["partition"],
            headers=[(name, decode(value)) for name, value in record["headers"]],
            timestamp=record["timestamp"],
            on_delivery=keep(i),
        )
    producer.flush()
    for place in places:
        print(json.dumps(place))


def consume(bootstrap, topic, count):
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "matrix-confluent", "enable.auto.commit": False})
    partitions = consumer.list_topics(topic).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
    for _ in range(count):
        message = consumer.poll(30)
        if message is None or message.error():
            raise RuntimeError(str(message and message.error()))
        print(
            json.dumps(
                {
                    "partition": message.partition(),
                    "offset": message.offset(),
                    "timestamp": message.timestamp()[1],
                    "key": encode(message.key()),
                    "value": encode(message.value()),
                    "headers": [[name, encode(value)] for name, value in message.headers() or []],
                }
            )
        )
    consumer.close()


if sys.argv[1] == "produce":
    produce(sys.argv[2], sys.argv[3])
else:
    consume(sys.argv[2], sys.argv[3], int(sys.argv[4]))
