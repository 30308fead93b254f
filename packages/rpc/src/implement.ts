import type { DescMethod, DescService } from "@bufbuild/protobuf";
import type { AccessRule, ServiceAccess } from "./access.ts";
import type { CodecsOf, RequestIn, ResponseOut } from "./adapter.ts";
import type { CallContext } from "./context.ts";

/** The sending half of a streaming call, for handlers that are driven by events rather than by a loop. */
export interface ResponseStream<Out> {
  /** false = the buffer is full (16 messages and the HTTP/2 window): wait for `drained()` before the next. Ignored after the end. */
  write(message: Out): boolean;
  /** Resolves when there is room again, or when the call has ended. */
  drained(): Promise<void>;
  /** Messages written and not yet taken by the transport. */
  readonly pendingMessages: number;
}
export interface DuplexStream<In, Out> extends ResponseStream<Out>, AsyncIterable<In> {
  /** Event style instead of iteration: `onMessage` for each, `onEnd` once the client has sent its last. A throw ends the call. */
  listen(onMessage: (message: In) => void, onEnd: () => void): void;
  pause(): void;
  resume(): void;
}

/**
 * How each kind of method is written:
 *
 *   unary             (request, context) => response
 *   server streaming  (request, context) => async iterable, or {stream: (request, responses, context) => promise}
 *   client streaming  (requests as async iterable, context) => response
 *   bidirectional     (requests, context) => async iterable, or {stream: (duplex, context) => promise}
 *
 * The call ends when the iterable or the promise does; a rejection becomes its status. Iterables are written with back-pressure.
 */
type Handler<S extends DescService, M extends keyof S["method"], C, K = S["method"][M]["methodKind"]> = K extends "unary"
  ? (request: RequestIn<S, M, C>, context: CallContext) => Promise<ResponseOut<S, M, C>> | ResponseOut<S, M, C>
  : K extends "server_streaming"
    ? | ((request: RequestIn<S, M, C>, context: CallContext) => AsyncIterable<ResponseOut<S, M, C>>)
      | {
          stream(request: RequestIn<S, M, C>, responses: ResponseStream<ResponseOut<S, M, C>>, context: CallContext): Promise<void>;
        }
    : K extends "client_streaming"
      ? (requests: AsyncIterable<RequestIn<S, M, C>>, context: CallContext) => Promise<ResponseOut<S, M, C>>
      : | ((requests: AsyncIterable<RequestIn<S, M, C>>, context: CallContext) => AsyncIterable<ResponseOut<S, M, C>>)
        | { stream(call: DuplexStream<RequestIn<S, M, C>, ResponseOut<S, M, C>>, context: CallContext): Promise<void> };

export type Handlers<S extends DescService, C = CodecsOf<S>> = { readonly [M in keyof S["method"]]: Handler<S, M, C> };

/** A service with its handlers, ready to be served. */
export interface ServiceRegistration {
  readonly service: DescService;
  readonly methods: readonly MethodRegistration[];
}
export interface MethodRegistration {
  readonly method: DescMethod;
  readonly rule: AccessRule;
  readonly handler: unknown;
  readonly codecs: { readonly request?: unknown; readonly response?: unknown };
}

/** Joins an access table and the handlers of the same service. Throws when a handler is missing. */
export function implement<S extends DescService, const C extends CodecsOf<S> = CodecsOf<S>>(
  access: ServiceAccess<S>,
  handlers: Handlers<S, C>,
  options: { readonly codecs?: C } = {},
): ServiceRegistration {
  const table: Readonly<Record<string, unknown>> = handlers as Readonly<Record<string, unknown>>;
  const codecs = (options.codecs ?? {}) as Readonly<Record<string, MethodRegistration["codecs"] | undefined>>;
  return {
    service: access.service,
    methods: access.service.methods.map((method) => {
      const rule = access.table[method.localName];
      const handler = table[method.localName];
      if (rule === undefined) throw new Error(`${access.service.typeName}.${method.name} has no entry in the access table`);
      if (handler === undefined) throw new Error(`${access.service.typeName}.${method.name} has no handler`);
      // Methods of a class keep their `this`.
      const bound: unknown = typeof handler === "function" ? handler.bind(handlers) : handler;
      return { method, rule, handler: bound, codecs: codecs[method.localName] ?? {} };
    }),
  };
}
