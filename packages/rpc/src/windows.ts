import type { Server } from "@grpc/grpc-js";
import type { Server as NetServer, Socket } from "node:net";
import type { ServerHttp2Session, ServerHttp2Stream, SessionOptions } from "node:http2";

/**
 * HTTP/2 settings that grpc-js servers do not let one choose. They ignore `grpc-node.flow_control_window`, so uploads crawl in windows of
 * 64 KiB; raised, 64 KiB messages go up more than twice as fast. Reached through two private members, so it is tested at every start:
 * `applied` says what took effect, and a test fails when a new grpc-js no longer has them.
 */
export interface TransportSettings {
  /** Flow-control window of each stream and of each connection. */
  readonly windowBytes: number;
  readonly headerListBytesMax: number;
  readonly connectionsMax: number;
}
export interface AppliedSettings {
  readonly streamWindow: boolean;
  readonly connectionHook: boolean;
}

interface Http2Like extends NetServer {
  on(event: "connection", listener: (socket: Socket) => void): this;
  on(event: "session", listener: (session: ServerHttp2Session) => void): this;
  prependListener(event: "stream", listener: (stream: ServerHttp2Stream) => void): this;
  prependListener(event: string, listener: (...args: never[]) => void): this;
  on(event: string, listener: (...args: never[]) => void): this;
}
interface PrivateServer {
  commonServerOptions?: SessionOptions & { maxHeaderListPairs?: number };
  createHttp2Server?: (credentials: unknown) => Http2Like;
}

const HEADER_PAIRS_MAX = 64;

export interface TransportHooks {
  readonly onConnection: (socket: Socket) => void;
  /** Sees every stream before grpc-js does. */
  readonly onStream: (stream: ServerHttp2Stream) => void;
}

export function applyTransportSettings(server: Server, settings: TransportSettings, hooks: TransportHooks): AppliedSettings {
  const hidden = server as unknown as PrivateServer;
  const options = hidden.commonServerOptions;
  const streamWindow = typeof options === "object" && options !== null;
  if (streamWindow) {
    options.settings = { ...options.settings, initialWindowSize: settings.windowBytes, maxHeaderListSize: settings.headerListBytesMax };
    options.maxHeaderListPairs = HEADER_PAIRS_MAX;
  }
  const original = hidden.createHttp2Server;
  const connectionHook = typeof original === "function";
  if (connectionHook) {
    hidden.createHttp2Server = (credentials) => {
      const http2Server = original.call(server, credentials);
      http2Server.maxConnections = settings.connectionsMax;
      http2Server.on("session", (session: ServerHttp2Session) => {
        if (!session.destroyed) session.setLocalWindowSize(settings.windowBytes);
      });
      http2Server.on("connection", hooks.onConnection);
      http2Server.prependListener("stream", hooks.onStream);
      return http2Server;
    };
  }
  return { streamWindow, connectionHook };
}
