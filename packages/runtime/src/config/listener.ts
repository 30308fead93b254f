import { SluiceError } from "@sluice/core/model";
import { formatHostPort, parseHostPort } from "./values.ts";

/** Where a service listens. `advertised` is what others are told; it differs behind NAT, in containers and for port 0. */
export interface Listener {
  readonly name: string;
  readonly host: string;
  /** 0 = any free port: the bound one is known after the start. */
  readonly port: number;
  readonly advertised: string | undefined;
  readonly allowUnauthenticated: boolean;
}

/** The three keys of a listener, to be spread into `defineConfig`. */
export function listenerKeys<const N extends string>(name: N, bind: string, doc: string) {
  return {
    [`listener.${name}.bind`]: { type: "hostport", default: bind, doc: `${doc}: address and port.` },
    [`listener.${name}.advertised`]: {
      type: "hostport",
      doc: `${doc}: what others are told to connect to; the bound address unless given.`,
    },
    [`listener.${name}.allowUnauthenticated`]: {
      type: "bool",
      default: false,
      doc: `${doc}: must be true to listen beyond loopback while nobody has to prove who they are.`,
    },
  } as {
    readonly [K in `listener.${N}.bind`]: { readonly type: "hostport"; readonly default: string; readonly doc: string };
  } & {
    readonly [K in `listener.${N}.advertised`]: { readonly type: "hostport"; readonly doc: string };
  } & {
    readonly [K in `listener.${N}.allowUnauthenticated`]: { readonly type: "bool"; readonly default: false; readonly doc: string };
  };
}

export const isLoopback = (host: string): boolean =>
  host === "localhost" || host === "::1" || host === "0:0:0:0:0:0:0:1" || /^127(\.\d{1,3}){3}$/.test(host) || /^::ffff:127\./i.test(host);

/** Builds a listener; throws INVALID_CONFIG when it is open to others without authentication and nobody said so in writing. */
export function createListener(
  name: string,
  options: { readonly bind: string; readonly advertised?: string | undefined; readonly allowUnauthenticated?: boolean },
): Listener {
  let bound;
  try {
    bound = parseHostPort(options.bind);
  } catch (cause) {
    throw new SluiceError("INVALID_CONFIG", `listener.${name}.bind is ${JSON.stringify(options.bind)}; it takes host:port`, { cause });
  }
  const allowUnauthenticated = options.allowUnauthenticated ?? false;
  if (!allowUnauthenticated && !isLoopback(bound.host)) {
    throw new SluiceError(
      "INVALID_CONFIG",
      `listener.${name}.bind is ${options.bind}, open to others without authentication; set listener.${name}.allowUnauthenticated=true or bind to 127.0.0.1`,
    );
  }
  return { name, ...bound, advertised: options.advertised, allowUnauthenticated };
}
/** The same from a loaded configuration that was declared with `listenerKeys(name, ...)`. */
export function listenerOf<N extends string>(
  config: { readonly [K in `listener.${N}.bind`]: string } & { readonly [K in `listener.${N}.advertised`]: string | undefined } & {
    readonly [K in `listener.${N}.allowUnauthenticated`]: boolean;
  },
  name: N,
): Listener {
  const values: Readonly<Record<string, string | boolean | undefined>> = config;
  return createListener(name, {
    bind: values[`listener.${name}.bind`] as string,
    advertised: values[`listener.${name}.advertised`] as string | undefined,
    allowUnauthenticated: values[`listener.${name}.allowUnauthenticated`] === true,
  });
}
/** What others connect to, once the port is known. An unspecified host is told as loopback: it is right on one machine and nowhere else. */
export function advertisedAddress(listener: Listener, boundPort: number): string {
  if (listener.advertised !== undefined) {
    const given = parseHostPort(listener.advertised);
    return given.port === 0 ? formatHostPort(given.host, boundPort) : listener.advertised;
  }
  const host = listener.host === "0.0.0.0" || listener.host === "::" ? "127.0.0.1" : listener.host;
  return formatHostPort(host, boundPort);
}
