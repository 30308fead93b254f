import { describe, expect, test } from "@jest/globals";
import { create, createFileRegistry, type DescService, fromBinary } from "@bufbuild/protobuf";
import { type FileDescriptorProto, FileDescriptorProtoSchema, FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { AdminService } from "@sluice/proto/v1/admin";
import { ConsumeService } from "@sluice/proto/v1/consume";
import { GroupService } from "@sluice/proto/v1/group";
import { ProduceService } from "@sluice/proto/v1/produce";
import { createRpcClient, defineAccess, implement } from "../src/index.ts";
import { ServerReflection as V1 } from "../src/gen/grpc/reflection/v1/reflection_pb.ts";
import { ServerReflection as V1Alpha } from "../src/gen/grpc/reflection/v1alpha/reflection_pb.ts";
import { EchoService } from "./gen/sluice/rpctest/v1/echo_pb.ts";
import { startEcho } from "./support.ts";

const timeoutMs = 10_000;
const files = (bytes: readonly Uint8Array[]): FileDescriptorProto[] => bytes.map((b) => fromBinary(FileDescriptorProtoSchema, b));

describe.each([
  ["v1", V1],
  ["v1alpha", V1Alpha as unknown as typeof V1],
])("reflection %s", (_version, service) => {
  async function ask(
    questions: Parameters<ReturnType<ReturnType<typeof createRpcClient<typeof V1>>["serverReflectionInfo"]>["write"]>[0][],
  ) {
    await using echo = await startEcho();
    const client = createRpcClient(service, echo.address);
    const call = client.serverReflectionInfo({ timeoutMs });
    for (const question of questions) call.write(question);
    call.end();
    const answers = [];
    for await (const reply of call) answers.push(reply.messageResponse);
    client.close();
    return answers;
  }

  test("lists what is served", async () => {
    const [answer] = await ask([{ messageRequest: { case: "listServices", value: "" } }]);
    expect(answer?.case === "listServicesResponse" ? answer.value.service.map((s) => s.name).toSorted() : answer).toEqual([
      "grpc.health.v1.Health",
      "grpc.reflection.v1.ServerReflection",
      "grpc.reflection.v1alpha.ServerReflection",
      "sluice.rpctest.v1.EchoService",
    ]);
  });

  test("a symbol brings its file with all imports, enough to build the service again", async () => {
    const [answer] = await ask([{ messageRequest: { case: "fileContainingSymbol", value: "sluice.rpctest.v1.EchoService" } }]);
    if (answer?.case !== "fileDescriptorResponse") throw new Error(`unexpected ${answer?.case}`);
    const got = files(answer.value.fileDescriptorProto);
    expect(got.map((f) => f.name)).toEqual(["sluice/rpctest/v1/echo.proto", "sluice/rpctest/v1/echo_types.proto"]);
    const registry = createFileRegistry(create(FileDescriptorSetSchema, { file: got.toReversed() }));
    expect(registry.getService(EchoService.typeName)?.methods.map((m) => m.name)).toEqual(["Unary", "Down", "Up", "Both"]);
  });

  test("answers for files, messages, fields and methods, and says not found for the rest, all in one stream", async () => {
    const answers = await ask([
      { messageRequest: { case: "fileByFilename", value: "sluice/rpctest/v1/echo_types.proto" } },
      { messageRequest: { case: "fileContainingSymbol", value: "sluice.rpctest.v1.EchoRequest.text" } },
      { messageRequest: { case: "fileContainingSymbol", value: "sluice.rpctest.v1.EchoService.Both" } },
      { messageRequest: { case: "fileContainingSymbol", value: "no.such.Thing" } },
      { messageRequest: { case: "fileContainingExtension", value: { containingType: "x.Y", extensionNumber: 3 } } },
      { messageRequest: { case: "allExtensionNumbersOfType", value: "sluice.rpctest.v1.EchoRequest" } },
      {},
    ]);
    expect(answers.map((a) => (a.case === "errorResponse" ? a.value.errorCode : a.case))).toEqual([
      "fileDescriptorResponse",
      "fileDescriptorResponse",
      "fileDescriptorResponse",
      5,
      5,
      "allExtensionNumbersResponse",
      3,
    ]);
  });
});

test("the client API can be built again from what reflection tells, well-known imports included", async () => {
  const services = [ProduceService, ConsumeService, AdminService, GroupService];
  const registrations = services.map((service) => {
    const rules = Object.fromEntries(service.methods.map((method) => [method.localName, "open"]));
    const handlers = Object.fromEntries(service.methods.map((method) => [method.localName, () => undefined]));
    return implement(defineAccess<DescService>(service as DescService, rules as never), handlers as never);
  });
  await using echo = await startEcho({ services: registrations });
  const client = createRpcClient(V1, echo.address);
  const call = client.serverReflectionInfo({ timeoutMs });
  for (const service of services) call.write({ messageRequest: { case: "fileContainingSymbol", value: service.typeName } });
  call.end();
  let at = 0;
  for await (const { messageResponse } of call) {
    if (messageResponse.case !== "fileDescriptorResponse") throw new Error(`unexpected ${messageResponse.case}`);
    const got = files(messageResponse.value.fileDescriptorProto);
    const registry = createFileRegistry(create(FileDescriptorSetSchema, { file: inOrder(got) }));
    const service = services[at++]!;
    expect(registry.getService(service.typeName)?.methods.map((m) => m.name)).toEqual(service.methods.map((m) => m.name));
  }
  expect(at).toBe(services.length);
  client.close();
});
/** Imports before the files that import them. */
function inOrder(all: readonly FileDescriptorProto[]): FileDescriptorProto[] {
  const done = new Map<string, FileDescriptorProto>();
  const visit = (file: FileDescriptorProto): void => {
    for (const name of file.dependency) {
      const imported = all.find((f) => f.name === name);
      if (imported === undefined) throw new Error(`${file.name} imports ${name}, which is missing`);
      if (!done.has(name)) visit(imported);
    }
    done.set(file.name, file);
  };
  for (const file of all) if (!done.has(file.name)) visit(file);
  return [...done.values()];
}
