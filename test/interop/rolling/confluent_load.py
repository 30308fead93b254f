"""confluent-kafka (librdkafka) as an application: see load.ts. Defaults of the client."""

import os
import sys
import threading
import time

from confluent_kafka import Consumer, Producer

MEMBERS = 2
POLL_SECONDS = 0.1
lock = threading.Lock()
producing = threading.Event()
running = threading.Event()
DEBUG = {"debug": "broker,topic,metadata,cgrp"} if os.environ.get("SLUICE_TEST_CLIENT_LOG") == "DEBUG" else {}


def say(line):
    with lock:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def now_ms():
    return time.time_ns() // 1_000_000


def told(who):
    return lambda error: say(f"{'error' if error.fatal() else 'told'} {who}: {error.name()} {error.str()}")


def produce(bootstrap, topic, partitions, rate, more):
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **more, **DEBUG, "error_cb": told("producer")})

    def delivered(value, due_ms):
        def answer(error, message):
            if error is not None:
                say(f"error produce {value}: {error}")
            else:
                say(f"ack {message.partition()} {message.offset()} {value} {due_ms} {now_ms()}")

        return answer

    start, start_ms, i = time.monotonic(), now_ms(), 0
    while not producing.is_set():
        due = i / rate
        # A record is due at a time whether the one before it was acknowledged or not.
        while (left := start + due - time.monotonic()) > 0:
            producer.poll(left)
        partition = i % partitions
        value = f"librdkafka/{partition}/{i // partitions}"
        try:
            producer.produce(topic, value=value, partition=partition, on_delivery=delivered(value, start_ms + int(due * 1000)))
        except Exception as error:
            say(f"error producer: {error}")
        i += 1
    producer.flush(60)
    say("produced")


def consume(bootstrap, topic, member, more):
    name = f"member-{member}"
    settings = {"bootstrap.servers": bootstrap, "group.id": topic, "client.id": name, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, **more, **DEBUG, "error_cb": told(name)})
    consumer.subscribe(
        [topic],
        on_assign=lambda _, partitions: say(f"group {name} gets {len(partitions)}"),
        on_revoke=lambda _, partitions: say(f"group {name} gives {len(partitions)}"),
        on_lost=lambda _, partitions: say(f"group {name} loses {len(partitions)}"),
    )
    while not running.is_set():
        message = consumer.poll(POLL_SECONDS)
        if message is None:
            continue
        if message.error():
            say(f"error {name}: {message.error()}")
        else:
            say(f"read {message.partition()} {message.offset()} {message.value().decode()} {now_ms()}")
    consumer.close()


def main(bootstrap, topic, partitions, rate, *more):
    settings = dict(one.split("=", 1) for one in more)
    members = [threading.Thread(target=consume, args=(bootstrap, topic, i, settings)) for i in range(MEMBERS)]
    producer = threading.Thread(target=produce, args=(bootstrap, topic, int(partitions), int(rate), settings))
    for thread in [*members, producer]:
        thread.start()
    # A line ends the producer, the end of the input the members.
    sys.stdin.readline()
    producing.set()
    producer.join()
    sys.stdin.read()
    running.set()
    for member in members:
        member.join()


main(*sys.argv[1:])
