import type { DescService } from "@bufbuild/protobuf";

/** Who calls. Anonymous until a listener demands a proof. */
export interface Principal {
  /** `User:alice`, `Service:broker-1`, `User:ANONYMOUS`. */
  readonly name: string;
  readonly tenant: string;
}
export const anonymous: Principal = { name: "User:ANONYMOUS", tenant: "default" };

/** What is protected. */
export type ResourceType = "cluster" | "topic" | "group" | "producer";
/** Kafka's operations, as far as the API has them; "internal" is for calls between services. */
export type Operation = "read" | "write" | "create" | "delete" | "alter" | "describe" | "internal";
export interface AccessRequest {
  readonly resource: ResourceType;
  readonly operation: Operation;
  /** Name of the topic or group; undefined when the call names it later (streams) or touches the cluster. */
  readonly name: string | undefined;
}
/** Decides. A plain boolean keeps the hot path free of promises. */
export interface Authorizer {
  authorize(principal: Principal, request: AccessRequest): boolean | Promise<boolean>;
}
export const allowAll: Authorizer = { authorize: () => true };

/** One row of the table API x resource x operation. `open` needs no right: health and reflection. */
export type AccessRule = { readonly resource: ResourceType; readonly operation: Operation } | "open";
type MethodNames<S extends DescService> = keyof S["method"] & string;
export type AccessTable<S extends DescService> = { readonly [M in MethodNames<S>]: AccessRule };
export interface ServiceAccess<S extends DescService = DescService> {
  readonly service: S;
  readonly table: Readonly<Record<string, AccessRule>>;
}

/**
 * The access table of a service, one entry for each method, keyed by its local name. Throws when one is missing or unknown: a new RPC
 * cannot be forgotten. The rule is checked before the handler runs, without a resource name; handlers check the name they find in the
 * request with `context.authorize(name)`.
 */
export function defineAccess<S extends DescService>(service: S, table: AccessTable<S>): ServiceAccess<S> {
  const rules: Readonly<Record<string, AccessRule | undefined>> = table;
  for (const method of service.methods) {
    if (rules[method.localName] === undefined) throw new Error(`${service.typeName}.${method.name} has no entry in the access table`);
  }
  for (const name of Object.keys(rules)) {
    if (!Object.hasOwn(service.method, name))
      throw new Error(`the access table of ${service.typeName} names ${name}, which it does not have`);
  }
  return { service, table: table as Readonly<Record<string, AccessRule>> };
}
