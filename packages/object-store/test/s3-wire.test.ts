import { describe, expect, test } from "@jest/globals";
import { codeOf } from "@sluice/core/model";
import { silentLogger, systemClock } from "@sluice/runtime";
import { objectStoreLimits } from "../src/index.ts";
import { s3ObjectStore } from "../src/s3/store.ts";
import { after, type Answer, credentials, fakeServer, s3Error } from "./fake-server.ts";

async function failed(promise: Promise<unknown>): Promise<{ code: string; message: string }> {
  try {
    await promise;
  } catch (error) {
    return { code: codeOf(error), message: (error as { message: string }).message };
  }
  throw new Error("should have failed");
}
async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const out: T[] = [];
  for await (const item of items) out.push(item);
  return out;
}
const UNAVAILABLE = "OBJECT_STORE_UNAVAILABLE";
const five = new Uint8Array([1, 2, 3, 4, 5]);
const ranged = (range: string, body: Uint8Array): Answer => after(206, { "content-range": range, "content-length": body.length }, body);

describe("requests of the S3 adapter", () => {
  test("a put is signed in its query, unsigned in its body, with its length announced", async () => {
    const seen: Record<string, unknown>[] = [];
    await using fake = await fakeServer((req, res) => {
      const url = new URL(req.url ?? "", "http://fake");
      const chunks: Buffer[] = [];
      req.on("data", (chunk: Buffer) => chunks.push(chunk));
      req.once("end", () => {
        seen.push({
          path: url.pathname,
          length: req.headers["content-length"],
          sha: req.headers["x-amz-content-sha256"],
          signature: url.searchParams.get("X-Amz-Signature")?.length,
          body: Buffer.concat(chunks).toString("hex"),
        });
        res.end();
      });
    });
    await fake.store.put("a/b", [five.subarray(0, 2), five.subarray(2)]);
    expect(seen).toEqual([{ path: "/bucket/a/b", length: "5", sha: undefined, signature: 64, body: "0102030405" }]);
  });

  test("one attempt each", async () => {
    await using fake = await fakeServer(s3Error(503, "SlowDown"));
    expect((await failed(fake.store.put("k", [five]))).message).toBe("put s3://bucket/k: the server answered 503 SlowDown it & failed");
    expect(fake.requests).toEqual(["PUT /bucket/k"]);
  });

  test("keys in each other's way: believed when the server says so again and again", async () => {
    await using fake = await fakeServer(s3Error(409, "ExistingObjectIsDirectory"));
    expect((await failed(fake.store.put("k", [five]))).code).toBe("INVALID_ARGUMENT");
    const { folderClashAttempts } = objectStoreLimits;
    expect(fake.requests).toHaveLength(folderClashAttempts);
    fake.answer = (req, res) => {
      fake.answer = after(200, {});
      s3Error(409, "ExistingObjectIsDirectory")(req, res);
    };
    await fake.store.put("k", [five]);
    expect(fake.requests).toHaveLength(folderClashAttempts + 2);
  });

  test("messages name bucket and key, never the signature or the secret", async () => {
    await using fake = await fakeServer((req) => req.socket.destroy());
    for (const { message } of [await failed(fake.store.put("k/1", [five])), await failed(all(fake.store.list("k/1")))]) {
      expect(message).toMatch(/^(put s3:\/\/bucket\/k\/1|list s3:\/\/bucket\/): /);
      expect(message).not.toContain("X-Amz");
      expect(message).not.toContain(credentials.secretKey);
    }
  });

  test("a bucket in a region of its own is made there", async () => {
    let body = "";
    await using fake = await fakeServer((req, res) => {
      req.on("data", (chunk: Buffer) => (body += chunk.toString()));
      req.once("end", () => res.writeHead(req.method === "HEAD" && body === "" ? 404 : 200).end());
    });
    const store = s3ObjectStore({
      clock: systemClock,
      logger: silentLogger,
      endpoint: fake.endpoint,
      bucket: "bucket",
      region: "eu-west-1",
      credentials,
    });
    await store.ensureBucket();
    await store.close();
    expect(fake.requests).toEqual(["HEAD /bucket", "PUT /bucket", "HEAD /bucket"]);
    expect(body).toContain("<LocationConstraint>eu-west-1</LocationConstraint>");
  });
});

describe("answers that the S3 adapter must not believe", () => {
  const cases: [string, Answer][] = [
    ["the whole object instead of the range", after(200, { "content-length": 5 }, five)],
    ["fewer bytes than asked, honestly said", ranged("bytes 0-3/4", five.subarray(0, 4))],
    ["fewer bytes than asked, under the right range", ranged("bytes 0-4/5", five.subarray(0, 4))],
    ["more bytes than asked", ranged("bytes 0-4/9", new Uint8Array(9))],
    ["another range of the right length", ranged("bytes 1-5/9", five)],
    ["no range said", after(206, { "content-length": 5 }, five)],
    [
      "a connection that ends in the middle",
      (_req, res) => {
        res.writeHead(206, { "content-range": "bytes 0-4/5", "content-length": 5 });
        res.write(five.subarray(0, 3), () => res.destroy());
      },
    ],
    ["no HTTP at all", (req) => req.socket.end("hello\r\n\r\n")],
    [
      "an error page without end",
      (_req, res) => {
        res.writeHead(500);
        const more = (): unknown => res.destroyed || (res.write(new Uint8Array(65_536)), setImmediate(more));
        more();
      },
    ],
    ["an announced length beyond all limits", after(500, { "content-length": 2 ** 50 })],
    ["a redirect", after(307, { location: "http://127.0.0.1:1/elsewhere" })],
    ["a missing bucket", s3Error(404, "NoSuchBucket")],
  ];
  test.each(cases)("%s", async (_name, answer) => {
    await using fake = await fakeServer(answer);
    expect((await failed(fake.store.getRange("k", 0, 5))).code).toBe(UNAVAILABLE);
  });

  test("a range sent in chunks without a length is taken when it is exact", async () => {
    await using fake = await fakeServer((_req, res) => {
      res.writeHead(206, { "content-range": "bytes 0-4/5" });
      res.write(five.subarray(0, 2));
      res.end(five.subarray(2));
    });
    expect(await fake.store.getRange("k", 0, 5)).toEqual(five);
  });

  test("404 is an absent object only while the bucket is there", async () => {
    await using fake = await fakeServer(s3Error(404, "NoSuchKey"));
    expect((await failed(fake.store.getRange("k", 0, 5))).code).toBe("OBJECT_NOT_FOUND");
    expect((await failed(fake.store.head("k"))).code).toBe(UNAVAILABLE);
    expect((await failed(fake.store.delete("k"))).code).toBe(UNAVAILABLE);
    fake.answer = (req, res) => after(req.url?.startsWith("/bucket?") ? 200 : 404, {})(req, res);
    expect(await fake.store.head("k")).toBeUndefined();
    await fake.store.delete("k");
  });

  test("an answer before the end of the body is an error at once", async () => {
    await using fake = await fakeServer((_req, res) =>
      res.writeHead(403, { connection: "close" }).end("<Error><Code>AccessDenied</Code></Error>"),
    );
    const { code } = await failed(fake.store.put("k", [new Uint8Array(32 * 1024 * 1024)]));
    expect(code).toBe(UNAVAILABLE);
  });

  test("a server that accepts and never answers ends by the stall timer", async () => {
    await using fake = await fakeServer(() => {}, { stallTimeoutMs: 40 });
    expect((await failed(fake.store.head("k"))).message).toContain("no byte moved for 40 ms");
  });

  test("a server that trickles ends by the deadline of the call", async () => {
    await using fake = await fakeServer(
      (_req, res) => {
        res.writeHead(206, { "content-range": "bytes 0-999/1000", "content-length": 1000 });
        const drip = setInterval(() => (res.destroyed ? clearInterval(drip) : res.write("x")), 5);
      },
      { stallTimeoutMs: 100, bodyCallTimeoutMs: 400 },
    );
    expect((await failed(fake.store.getRange("k", 0, 1000))).message).toContain("no answer within 400 ms");
  });

  test("more calls than may wait are refused, the others end", async () => {
    const held: (() => void)[] = [];
    await using fake = await fakeServer((_req, res) => void held.push(() => res.writeHead(200).end()));
    const waiting = Array.from({ length: objectStoreLimits.callsInFlightMax }, () => fake.store.put("k", []));
    expect((await failed(fake.store.put("k", []))).message).toContain("calls are waiting already");
    while (held.length < objectStoreLimits.socketsMax) await systemClock.sleep(2);
    fake.answer = after(200, {});
    for (const release of held) release();
    await Promise.all(waiting);
  }, 20_000);
});

describe("multipart uploads over the wire", () => {
  const partBytes = objectStoreLimits.partBytesMin;
  async function* twoParts(): AsyncGenerator<Uint8Array> {
    yield new Uint8Array(2 * partBytes);
  }
  const begun = after(200, {}, "<InitiateMultipartUploadResult><UploadId>u&amp;1</UploadId></InitiateMultipartUploadResult>");
  const byStep = (steps: { begin?: Answer; part?: Answer; complete?: Answer; abort?: Answer }): Answer => {
    return (req, res) => {
      const url = req.url ?? "";
      if (req.method === "POST" && url.includes("uploads=")) return (steps.begin ?? begun)(req, res);
      if (req.method === "PUT") return (steps.part ?? after(200, { etag: '"e"' }))(req, res);
      if (req.method === "DELETE") return (steps.abort ?? after(204, {}))(req, res);
      return (steps.complete ?? after(200, {}, "<CompleteMultipartUploadResult/>"))(req, res);
    };
  };
  const begin = "POST /bucket/k?uploads=";
  const part = (n: number): string => `PUT /bucket/k?partNumber=${n}&uploadId=u%261`;
  const complete = "POST /bucket/k?uploadId=u%261";
  const abort = "DELETE /bucket/k?uploadId=u%261";

  const cases: [string, Parameters<typeof byStep>[0], string[]][] = [
    ["no upload id", { begin: after(200, {}, "<Other/>") }, [begin]],
    ["a part that fails", { part: s3Error(500, "InternalError") }, [begin, part(1), abort]],
    ["a part without entity tag", { part: after(200, {}) }, [begin, part(1), abort]],
    ["a completion that fails", { complete: s3Error(500, "InternalError") }, [begin, part(1), part(2), complete, abort]],
    ["a completion that says 200 and an error", { complete: s3Error(200, "InternalError") }, [begin, part(1), part(2), complete, abort]],
    ["an abort that fails too", { part: s3Error(500, "InternalError"), abort: s3Error(500, "InternalError") }, [begin, part(1), abort]],
  ];
  test.each(cases)("%s: an error, and the upload is aborted", async (_name, steps, requests) => {
    await using fake = await fakeServer(byStep(steps));
    expect((await failed(fake.store.putMultipart("k", twoParts(), { partBytes }))).code).toBe(UNAVAILABLE);
    expect(fake.requests).toEqual(requests);
  });

  test("the abort is sent although the caller has given up", async () => {
    const controller = new AbortController();
    await using fake = await fakeServer(byStep({ part: () => controller.abort() }));
    expect((await failed(fake.store.putMultipart("k", twoParts(), { partBytes, signal: controller.signal }))).code).toBe("CANCELLED");
    expect(fake.requests).toEqual([begin, part(1), abort]);
  });
});

describe("lists over the wire", () => {
  const entry = (key: string): string =>
    `<Contents><Key>${key}</Key><LastModified>2026-01-02T03:04:05.678Z</LastModified><Size>7</Size></Contents>`;
  const page = (keys: string[], next?: string): Answer =>
    after(
      200,
      {},
      `<?xml version="1.0"?><ListBucketResult xmlns="x"><IsTruncated>${next !== undefined}</IsTruncated>${keys.map(entry).join("")}` +
        `${next === undefined ? "" : `<NextContinuationToken>${next}</NextContinuationToken>`}</ListBucketResult>`,
    );

  test("pages are followed by their token", async () => {
    await using fake = await fakeServer((req, res) =>
      (req.url?.includes("continuation-token=t%2F%261") ? page(["c"]) : page(["a", "b"], "t/&amp;1"))(req, res),
    );
    expect(await all(fake.store.list(""))).toEqual(
      ["a", "b", "c"].map((key) => ({ key, sizeBytes: 7, modifiedAtMs: Date.UTC(2026, 0, 2, 3, 4, 5, 678) })),
    );
  });

  const cases: [string, Answer][] = [
    ["the same page for ever", page(["a"], "t")],
    ["keys out of order", page(["b", "a"])],
    ["empty pages for ever", page([], "t")],
    ["a page that goes on without a token", after(200, {}, "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>")],
    ["an entry without size", after(200, {}, "<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>")],
    ["something else", after(200, {}, "<html>welcome</html>")],
    ["an error", s3Error(500, "InternalError")],
  ];
  test.each(cases)("%s", async (_name, answer) => {
    await using fake = await fakeServer(answer);
    expect((await failed(all(fake.store.list("")))).code).toBe(UNAVAILABLE);
  });
});
