import { describe, expect, test } from "@jest/globals";
import { createFileRegistry, fromBinary } from "@bufbuild/protobuf";
import { type FileDescriptorProto, FileDescriptorProtoSchema, FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { create } from "@bufbuild/protobuf";
import { createRpcClient } from "../src/index.ts";
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
