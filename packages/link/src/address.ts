import { SluiceError } from "@sluice/core/model";

/** `host:port`, `[v6]:port` or `unix:/path`. */
export type LinkAddress =
  | { readonly kind: "tcp"; readonly host: string; readonly port: number }
  | { readonly kind: "unix"; readonly path: string };

/** Throws INVALID_ARGUMENT, naming the address. */
export function parseAddress(text: string): LinkAddress {
  if (text.startsWith("unix:")) {
    const path = text.slice("unix:".length);
    if (!path.startsWith("/")) throw new SluiceError("INVALID_ARGUMENT", `link address ${text}: the path must be absolute`);
    return { kind: "unix", path };
  }
  const colon = text.lastIndexOf(":");
  const port = Number(text.slice(colon + 1));
  const host = text.slice(0, colon).replace(/^\[|\]$/g, "");
  if (colon < 1 || host === "" || !Number.isInteger(port) || port < 0 || port > 65_535 || text.endsWith(":"))
    throw new SluiceError("INVALID_ARGUMENT", `link address ${text}: write host:port or unix:/path`);
  return { kind: "tcp", host, port };
}
export const formatAddress = (host: string, port: number): string => (host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`);
