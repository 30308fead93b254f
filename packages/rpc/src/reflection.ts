import { type DescFile, type DescService, toBinary } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { status as grpcStatus } from "@grpc/grpc-js";
import { defineAccess } from "./access.ts";
import { ServerReflection as ReflectionV1 } from "./gen/grpc/reflection/v1/reflection_pb.ts";
import { ServerReflection as ReflectionV1Alpha } from "./gen/grpc/reflection/v1alpha/reflection_pb.ts";
import { implement, type ServiceRegistration } from "./implement.ts";

/** Files of the served services by name and by the symbols in them. Encoded once per file, when first asked for. */
class DescriptorIndex {
  readonly serviceNames: readonly string[];
  readonly #files = new Map<string, DescFile>();
  readonly #symbols = new Map<string, DescFile>();
  readonly #bytes = new Map<string, Uint8Array>();

  constructor(services: readonly DescService[]) {
    this.serviceNames = services.map((service) => service.typeName);
    for (const service of services) this.#add(service.file);
  }
  byName(filename: string): DescFile | undefined {
    return this.#files.get(filename);
  }
  bySymbol(symbol: string): DescFile | undefined {
    return this.#symbols.get(symbol);
  }
  /** The file first, then everything it imports, each once. */
  withImports(file: DescFile): Uint8Array[] {
    const seen = new Set<DescFile>([file]);
    for (const next of seen) for (const imported of next.dependencies) seen.add(imported);
    return [...seen].map((f) => this.#encode(f));
  }
  #encode(file: DescFile): Uint8Array {
    let bytes = this.#bytes.get(file.proto.name);
    if (bytes === undefined) {
      bytes = toBinary(FileDescriptorProtoSchema, file.proto);
      this.#bytes.set(file.proto.name, bytes);
    }
    return bytes;
  }
  #add(file: DescFile): void {
    if (this.#files.has(file.proto.name)) return;
    this.#files.set(file.proto.name, file);
    for (const service of file.services) {
      this.#symbols.set(service.typeName, file);
      for (const method of service.methods) this.#symbols.set(`${service.typeName}.${method.name}`, file);
    }
    const messages = [...file.messages];
    for (let next = messages.pop(); next !== undefined; next = messages.pop()) {
      this.#symbols.set(next.typeName, file);
      for (const member of [...next.fields, ...next.oneofs]) this.#symbols.set(`${next.typeName}.${member.name}`, file);
      for (const nested of next.nestedEnums) this.#symbols.set(nested.typeName, file);
      messages.push(...next.nestedMessages);
    }
    for (const one of [...file.enums, ...file.extensions]) this.#symbols.set(one.typeName, file);
    for (const imported of file.dependencies) this.#add(imported);
  }
}

/** A request of either version: same fields, types of their own. */
type Question =
  | { readonly case: "fileByFilename" | "fileContainingSymbol" | "allExtensionNumbersOfType" | "listServices"; readonly value: string }
  | { readonly case: "fileContainingExtension"; readonly value: { readonly containingType: string; readonly extensionNumber: number } }
  | { readonly case: undefined; readonly value?: undefined };
interface Request {
  readonly host: string;
  readonly messageRequest: Question;
}
const SYMBOL_CHARS_SHOWN = 200;
const notFound = (what: string) => ({
  case: "errorResponse" as const,
  value: { errorCode: grpcStatus.NOT_FOUND, errorMessage: `not found: ${what.slice(0, SYMBOL_CHARS_SHOWN)}` },
});

function answer(index: DescriptorIndex, question: Question) {
  const descriptors = (file: DescFile | undefined, asked: string) =>
    file === undefined
      ? notFound(asked)
      : { case: "fileDescriptorResponse" as const, value: { fileDescriptorProto: index.withImports(file) } };
  switch (question.case) {
    case "listServices":
      return { case: "listServicesResponse" as const, value: { service: index.serviceNames.map((name) => ({ name })) } };
    case "fileByFilename":
      return descriptors(index.byName(question.value), question.value);
    case "fileContainingSymbol":
      return descriptors(index.bySymbol(question.value), question.value);
    case "fileContainingExtension":
      return notFound(`extension ${question.value.extensionNumber} of ${question.value.containingType}`);
    case "allExtensionNumbersOfType":
      // Proto3 services have no extensions; a known type simply has none.
      if (index.bySymbol(question.value) === undefined) return notFound(question.value);
      return { case: "allExtensionNumbersResponse" as const, value: { baseTypeName: question.value, extensionNumber: [] } };
    default:
      return {
        case: "errorResponse" as const,
        value: { errorCode: grpcStatus.INVALID_ARGUMENT, errorMessage: "the request asks for nothing that is known here" },
      };
  }
}

/** Server reflection in both versions that clients ask for, over the given services and itself. */
export function reflectionServices(services: readonly DescService[]): readonly ServiceRegistration[] {
  const index = new DescriptorIndex([...services, ReflectionV1, ReflectionV1Alpha]);
  async function* respond(requests: AsyncIterable<Request>) {
    for await (const request of requests) {
      // The original request as plain data, since it goes back in the type of either version.
      const originalRequest = { host: request.host, messageRequest: plain(request.messageRequest) as never };
      yield { validHost: request.host, originalRequest, messageResponse: answer(index, request.messageRequest) };
    }
  }
  return [
    implement(defineAccess(ReflectionV1, { serverReflectionInfo: "open" }), { serverReflectionInfo: respond }),
    implement(defineAccess(ReflectionV1Alpha, { serverReflectionInfo: "open" }), { serverReflectionInfo: respond }),
  ];
}
function plain(question: Question): Question {
  if (question.case !== "fileContainingExtension") return question;
  const { containingType, extensionNumber } = question.value;
  return { case: question.case, value: { containingType, extensionNumber } };
}
