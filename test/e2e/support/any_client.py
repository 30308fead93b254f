"""A client made of nothing but what server reflection tells: creates a topic, produces, consumes, and gets an error's code."""
import sys

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

TIMEOUT_S = 10
endpoint, topic = sys.argv[1], sys.argv[2]
channel = grpc.insecure_channel(endpoint)
database = ProtoReflectionDescriptorDatabase(channel)
pool = DescriptorPool(database)
assert {"sluice.v1.ProduceService", "sluice.v1.ConsumeService", "sluice.v1.AdminService", "grpc.health.v1.Health"} <= set(
    database.get_services()
), database.get_services()


def method(service, name):
    found = pool.FindServiceByName(service).methods_by_name[name]
    request, response = GetMessageClass(found.input_type), GetMessageClass(found.output_type)
    kind = ("stream" if found.client_streaming else "unary") + "_" + ("stream" if found.server_streaming else "unary")
    make = getattr(channel, kind)
    return make(f"/{service}/{name}", request_serializer=request.SerializeToString, response_deserializer=response.FromString), request


check, CheckRequest = method("grpc.health.v1.Health", "Check")
assert check(CheckRequest(), timeout=TIMEOUT_S).status == 1

create, CreateTopicRequest = method("sluice.v1.AdminService", "CreateTopic")
created = create(CreateTopicRequest(name=topic, partitions=2, config={"retention.ms": "3600000"}), timeout=TIMEOUT_S)
assert created.topic.name == topic and created.topic.config["retention.ms"] == "3600000"

produce, ProduceRequest = method("sluice.v1.ProduceService", "Produce")
for n in range(10):
    request = ProduceRequest(topic=topic, partition=1)
    record = request.records.records.add(key=b"k%d" % n, value=b"value %d" % n)
    record.headers.add(name="h", value=b"\x00\xff")
    answer = produce(request, timeout=TIMEOUT_S)
    assert (answer.partition, answer.base_offset, answer.last_offset) == (1, n, n), answer

produce_stream, ProduceStreamRequest = method("sluice.v1.ProduceService", "ProduceStream")


def many():
    for n in range(10, 20):
        request = ProduceStreamRequest(id=n, topic=topic, partition=1)
        request.records.records.add(key=b"k%d" % n, value=b"value %d" % n)
        yield request


answers = list(produce_stream(many(), timeout=TIMEOUT_S))
assert [(a.id, a.error, a.base_offset) for a in answers] == [(n, 0, n) for n in range(10, 20)], answers

fetch, FetchRequest = method("sluice.v1.ConsumeService", "Fetch")
got = []
while len(got) < 20:
    answer = fetch(FetchRequest(topic=topic, partition=1, offset=len(got), wait_ms=2000), timeout=TIMEOUT_S)
    got.extend(answer.records.records)
assert [(r.offset, r.key, r.value) for r in got] == [(n, b"k%d" % n, b"value %d" % n) for n in range(20)], got
assert got[0].headers[0].name == "h" and got[0].headers[0].value == b"\x00\xff"

consume, ConsumeRequest = method("sluice.v1.ConsumeService", "Consume")
start = ConsumeRequest()
start.start.topic = topic
start.start.position.earliest.SetInParent()
start.start.credit_bytes = 1 << 20
start.start.report_end = True
# The stream of requests stays open until the answers are read.
done = []
streamed = []


def requests():
    import time

    yield start
    while not done:
        time.sleep(0.05)


stream = consume(requests(), timeout=TIMEOUT_S)
for answer in stream:
    assert answer.error == 0, answer
    streamed.extend(answer.records.records)
    if len(streamed) >= 20:
        break
done.append(True)
stream.cancel()
assert [r.value for r in streamed] == [b"value %d" % n for n in range(20)], streamed

try:
    produce(ProduceRequest(topic="no-such-topic", partition=0), timeout=TIMEOUT_S)
    raise AssertionError("a topic that does not exist took a record")
except grpc.RpcError as error:
    assert error.code() in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT), error
print("ok")
