import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { silentLogger, systemClock } from "@sluice/runtime";
import type { ObjectStoreTimers } from "../src/index.ts";
import { s3ObjectStore, type S3ObjectStore } from "../src/s3/store.ts";

export type Answer = (req: IncomingMessage, res: ServerResponse) => void;

/** An HTTP server that answers as the test says, and an S3 adapter that talks to it. */
export interface FakeServer {
  readonly store: S3ObjectStore;
  readonly endpoint: string;
  /** Method and path with query, without the signature. */
  readonly requests: string[];
  answer: Answer;
  [Symbol.asyncDispose](): Promise<void>;
}

export const credentials = { accessKey: "AKTEST", secretKey: "top-secret-of-the-test" };

export async function fakeServer(answer: Answer, timers: Partial<ObjectStoreTimers> = {}): Promise<FakeServer> {
  const requests: string[] = [];
  const server = createServer((req, res) => {
    const url = new URL(req.url ?? "", "http://fake");
    for (const name of Array.from(url.searchParams.keys())) if (name.startsWith("X-Amz-")) url.searchParams.delete(name);
    requests.push(`${req.method} ${url.pathname}${url.search}`);
    fake.answer(req, res);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const store = s3ObjectStore({ clock: systemClock, logger: silentLogger, endpoint, bucket: "bucket", credentials, timers });
  const fake: FakeServer = {
    store,
    endpoint,
    requests,
    answer,
    async [Symbol.asyncDispose]() {
      await store.close();
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
  return fake;
}

/** Answers after the whole body of the request. */
export const after =
  (status: number, headers: Record<string, string | number>, body: string | Uint8Array = ""): Answer =>
  (req, res) => {
    req.resume();
    req.once("end", () => res.writeHead(status, headers).end(body));
  };
export const s3Error = (status: number, code: string): Answer =>
  after(
    status,
    { "content-type": "application/xml" },
    `<?xml version="1.0"?><Error><Code>${code}</Code><Message>it &amp; failed</Message></Error>`,
  );
