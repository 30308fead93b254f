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

/** The three keys of a listener that is open only when its address is given. `advertised` is filled in by `fillAddress`. */
export function optionalListenerKeys<const N extends string>(name: N, doc: string) {
  return {
    [`listener.${name}.bind`]: { type: "hostport", doc: `${doc}: address and port; not open unless given.` },
    [`listener.${name}.advertised`]: {
      type: "string",
      max: 300,
      doc: `${doc}: host:port that others are told to connect to, with \`{id}\`, \`{host}\` and \`{zone}\` for those of this process; given with the address.`,
    },
    [`listener.${name}.allowUnauthenticated`]: {
      type: "bool",
      default: false,
      doc: `${doc}: must be true to listen beyond loopback while nobody has to prove who they are.`,
    },
  } as {
    readonly [K in `listener.${N}.bind`]: { readonly type: "hostport"; readonly doc: string };
  } & {
    readonly [K in `listener.${N}.advertised`]: { readonly type: "string"; readonly max: 300; readonly doc: string };
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
/**
 * The same for keys of `optionalListenerKeys`; undefined: it is not to be open. `values` are put into the advertised address, which has to be
 * given: what such a listener is for is an address that the process cannot see itself.
 */
export function optionalListenerOf<N extends string>(
  config: { readonly [K in `listener.${N}.bind`]: string | undefined } & {
    readonly [K in `listener.${N}.advertised`]: string | undefined;
  } & { readonly [K in `listener.${N}.allowUnauthenticated`]: boolean },
  name: N,
  values: Readonly<Record<string, string>>,
): Listener | undefined {
  const given: Readonly<Record<string, string | boolean | undefined>> = config;
  const bind = given[`listener.${name}.bind`] as string | undefined;
  const advertised = given[`listener.${name}.advertised`] as string | undefined;
  if (bind === undefined && advertised === undefined) return undefined;
  if (bind === undefined || advertised === undefined)
    throw new SluiceError("INVALID_CONFIG", `listener.${name}: bind and advertised are given together, or neither is`);
  return createListener(name, {
    bind,
    advertised: fillAddress(`listener.${name}.advertised`, advertised, values),
    allowUnauthenticated: given[`listener.${name}.allowUnauthenticated`] === true,
  });
}
/** `{id}.kafka.example.com:9094` with the values put in. Throws INVALID_CONFIG for a name without a value, and for what is no host:port then. */
export function fillAddress(key: string, template: string, values: Readonly<Record<string, string>>): string {
  const filled = template.replaceAll(/\{([^{}]*)\}/g, (whole, name: string) => {
    const value = Object.hasOwn(values, name) ? values[name] : undefined;
    if (value === undefined) throw new SluiceError("INVALID_CONFIG", `${key} is ${JSON.stringify(template)}: ${whole} is not known`);
    if (value === "") throw new SluiceError("INVALID_CONFIG", `${key} is ${JSON.stringify(template)}: \`${name}\` is empty`);
    return value;
  });
  try {
    if (filled.startsWith(":")) throw new Error("no host");
    parseHostPort(filled);
    return filled;
  } catch (cause) {
    throw new SluiceError("INVALID_CONFIG", `${key} is ${JSON.stringify(filled)}; it takes host:port`, { cause });
  }
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
