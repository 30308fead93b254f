import type { Clock } from "@sluice/runtime";
import type { MetadataStore } from "../port.ts";

/** What an adapter brings to be put through the contract. */
export interface MetadataContractSubject {
  readonly name: string;
  /** Called once before the cases; they share the data and keep to keys of their own. */
  setUp(): Promise<MetadataContractServer>;
}

export interface MetadataContractServer {
  /** The clock that the stores run on. */
  readonly clock: Clock;
  /** Lets that much time pass on the clock. */
  passTime(ms: number): Promise<void>;
  /** A store on the data; the cases close what they open. At most one is open at a time unless `shared`. */
  open(): Promise<MetadataStore>;
  /** Whether several stores may be open on the data. */
  readonly shared: boolean;
  /** Ends a lease without its holder. */
  endLease(id: string): Promise<void>;
  /** The store's process dies and comes back with its data. Returns the store to go on with: the same one if it reconnects. */
  restart(store: MetadataStore): Promise<MetadataStore>;
  /** For stores that are reached over a network. */
  readonly faults?: MetadataContractFaults;
  tearDown(): Promise<void>;
}

export interface MetadataContractFaults {
  /** kill -9 of the server. */
  kill(): Promise<void>;
  /** Starts it again with its data. */
  start(): Promise<void>;
  /** The server stops answering; connections stay. */
  pause(): void;
  resume(): void;
  /** Breaks all connections. */
  cut(): void;
  /** Breaks all connections once the server has sent so many more bytes, and calls `done`. */
  cutAfter(bytes: number, done: () => void): void;
}
