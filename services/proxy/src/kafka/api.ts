import type { Api, Input } from "@sluice/kafka-wire";
import type { Operation, Principal, ResourceType } from "@sluice/rpc";

/** What a handler knows about its request. */
export interface KafkaCall {
  readonly version: number;
  readonly clientId: string;
  /** Address that the client comes from, without the port. */
  readonly clientHost: string;
  readonly principal: Principal;
  /** Aborts when the connection is gone. */
  readonly signal: AbortSignal;
  /** Aborts when the connection is gone or the proxy begins to send its clients elsewhere: long polls end. */
  readonly ending: AbortSignal;
  /** Whether the principal has the handler's right on the named resource; undefined: on all of its kind. */
  may(name: string | undefined): boolean | Promise<boolean>;
  /** The same for another right than the handler's own. */
  mayOther(resource: ResourceType, operation: Operation, name: string | undefined): boolean | Promise<boolean>;
  /** Later requests of the connection start after this: what they do must not overtake what this one still has to do. */
  startNextAfter(done: Promise<unknown>): void;
  /** There is no answer to tell what went wrong (acks = 0): the connection is closed, which a client understands. */
  disconnect(reason: string): void;
}
/** `undefined`: the request has no answer. */
export type Reply<Response> = Input<Response> | undefined;

export interface KafkaHandler<Request = never, Response = unknown> {
  readonly api: Api<Request, Response>;
  /** The lowest version that is told to clients, where it is not the lowest that is served. */
  readonly toldMin?: number;
  /** The right that it takes: the row of this API in the table API x resource x operation. "open" takes none. */
  readonly access: { readonly resource: ResourceType; readonly operation: Operation } | "open";
  /** May start while earlier requests of its connection are under way. Others wait for those that are not pipelined. */
  readonly pipelined?: boolean;
  readonly handle: (request: Request, call: KafkaCall) => Reply<Response> | Promise<Reply<Response>>;
}
export type AnyHandler = KafkaHandler;

/** For the type checker: request and response are those of the API. */
export const defineHandler = <Request, Response>(handler: KafkaHandler<Request, Response>): AnyHandler => handler as unknown as AnyHandler;
