import type { DescMethod, DescService, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import type { MethodDefinition, ServiceDefinition } from "@grpc/grpc-js";
import { type Codec, encodeFor, guardedDecode, messageCodec } from "./codec.ts";

/** Codecs for chosen methods, by local name; the others carry protobuf-es messages. */
// oxlint-disable-next-line typescript/no-explicit-any -- the type of a codec is inferred where it is used
export type AnyCodec = Codec<any, any>;
export interface MethodCodecs {
  readonly request?: AnyCodec;
  readonly response?: AnyCodec;
}
export type CodecsOf<S extends DescService> = { readonly [M in keyof S["method"]]?: MethodCodecs };

type Chosen<C, M, Part extends "request" | "response"> = M extends keyof C
  ? C[M] extends { readonly [P in Part]: infer X }
    ? X
    : never
  : never;
type Method<S extends DescService, M extends keyof S["method"]> = S["method"][M];

/** What a server reads and a client sends; what a server sends and a client reads. */
export type RequestIn<S extends DescService, M extends keyof S["method"], C> = [Chosen<C, M, "request">] extends [never]
  ? MessageShape<Method<S, M>["input"]>
  : Chosen<C, M, "request"> extends Codec<infer _In, infer Out>
    ? Out
    : never;
export type RequestOut<S extends DescService, M extends keyof S["method"], C> = [Chosen<C, M, "request">] extends [never]
  ? MessageInitShape<Method<S, M>["input"]>
  : Chosen<C, M, "request"> extends Codec<infer In, infer _Out>
    ? In
    : never;
export type ResponseIn<S extends DescService, M extends keyof S["method"], C> = [Chosen<C, M, "response">] extends [never]
  ? MessageShape<Method<S, M>["output"]>
  : Chosen<C, M, "response"> extends Codec<infer _In, infer Out>
    ? Out
    : never;
export type ResponseOut<S extends DescService, M extends keyof S["method"], C> = [Chosen<C, M, "response">] extends [never]
  ? MessageInitShape<Method<S, M>["output"]>
  : Chosen<C, M, "response"> extends Codec<infer In, infer _Out>
    ? In
    : never;

export const methodPath = (method: DescMethod): string => `/${method.parent.typeName}/${method.name}`;

/** The definition that grpc-js wants of one method. Decoders never throw: see `guardedDecode`. */
export function methodDefinition(method: DescMethod, codecs: MethodCodecs = {}): MethodDefinition<unknown, unknown> {
  const request: AnyCodec = codecs.request ?? messageCodec(method.input);
  const response: AnyCodec = codecs.response ?? messageCodec(method.output);
  const kind = method.methodKind;
  return {
    path: methodPath(method),
    requestStream: kind === "client_streaming" || kind === "bidi_streaming",
    responseStream: kind === "server_streaming" || kind === "bidi_streaming",
    requestSerialize: encodeFor(request),
    requestDeserialize: guardedDecode(request),
    responseSerialize: encodeFor(response),
    responseDeserialize: guardedDecode(response),
  };
}
/** All methods of a service, keyed by local name. */
export function serviceDefinition<S extends DescService>(service: S, codecs: CodecsOf<S> = {}): ServiceDefinition {
  const chosen: Readonly<Record<string, MethodCodecs | undefined>> = codecs as Record<string, MethodCodecs | undefined>;
  return Object.fromEntries(service.methods.map((method) => [method.localName, methodDefinition(method, chosen[method.localName] ?? {})]));
}
