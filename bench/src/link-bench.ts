// Throughput of one data link between two processes: `node bench/src/link-bench.ts [tcp|unix]`. Prints a table, asserts nothing.
import { fork } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { timers, type ServiceKind } from "@sluice/core/model";
import { connectLink, FrameType, listenLinks, produceCodec, producedCodec, type Link, type LinkContext } from "@sluice/link";
import { silentLogger, systemClock, systemRandom } from "@sluice/runtime";

const MiB = 1024 * 1024;
const IN_FLIGHT_BYTES = 4 * MiB;
const TOPIC = "0123abcd-0000-4000-8000-000000000001";

const contextOf = (service: ServiceKind, memberId: string): LinkContext => ({
  clock: systemClock,
  random: systemRandom,
  logger: silentLogger,
  timers,
  identity: { clusterId: "bench", generation: 0, service, memberId, instance: memberId, incarnation: "", zone: "a" },
  windowBytes: 2 * IN_FLIGHT_BYTES,
});
const cpuMs = (): number => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
};

/** The other process: answers each produce frame, and tells its CPU time when asked. */
async function serve(address: string): Promise<void> {
  const message = produceCodec.create();
  const answer = producedCodec.create();
  const server = await listenLinks(contextOf("broker", "broker-1"), {
    address,
    handlers: {
      onFrame(link, frame) {
        if (frame.type !== FrameType.produce) return;
        produceCodec.decode(frame, message);
        answer.baseOffset = frame.payload.length;
        link.send(producedCodec, frame.correlation, answer);
        link.release(frame.creditBytes);
      },
    },
  });
  process.on("message", () => process.send?.({ cpuMs: cpuMs() }));
  process.on("disconnect", () => process.exit(0));
  process.send?.({ address: server.address });
}

async function run(link: Link, bytes: number, inFlight: number, totalFrames: number): Promise<{ ms: number; sortedUs: Float64Array }> {
  const payload = Buffer.alloc(bytes, 7);
  const message = { ...produceCodec.create(), topicId: TOPIC };
  const sortedUs = new Float64Array(totalFrames);
  let sent = 0;
  let done = 0;
  const begin = performance.now();
  await new Promise<void>((resolve, reject) => {
    const pump = (): void => {
      while (sent < totalFrames && sent - done < inFlight) {
        sent++;
        const at = performance.now();
        const taken = link.request(produceCodec, message, payload, 30_000, (_frame, failure) => {
          if (failure !== undefined) return reject(new Error(failure.message));
          sortedUs[done++] = (performance.now() - at) * 1000;
          if (done === totalFrames) resolve();
          else pump();
        });
        if (!taken) return reject(new Error("the link took no frame"));
      }
    };
    pump();
  });
  const ms = performance.now() - begin;
  return { ms, sortedUs: sortedUs.sort() };
}

async function main(kind: string): Promise<void> {
  const address = kind === "unix" ? `unix:${join(tmpdir(), `link-bench-${process.pid}.sock`)}` : "127.0.0.1:0";
  const child = fork(fileURLToPath(import.meta.url), ["--serve", address], { execArgv: ["--disable-warning=ExperimentalWarning"] });
  const told = <T>(): Promise<T> => new Promise((resolve) => child.once("message", (m) => resolve(m as T)));
  const childCpuMs = async (): Promise<number> => {
    const answer = told<{ cpuMs: number }>();
    child.send("cpu");
    return (await answer).cpuMs;
  };
  const { address: bound } = await told<{ address: string }>();
  const link = await connectLink(contextOf("proxy", "proxy-1"), { address: bound, purpose: "log", handlers: { onFrame() {} } });
  console.log("frame      in flight     MB/s   frames/s  ms/MB both ends   p50 us   p99 us");
  for (const bytes of [100, 4096, 65_536, MiB]) {
    for (const inFlight of [Math.min(4096, Math.max(2, IN_FLIGHT_BYTES / bytes)), 1]) {
      const frames = inFlight === 1 ? 2_000 : Math.min(400_000, Math.max(1_000, (1024 * MiB) / bytes));
      await run(link, bytes, inFlight, Math.ceil(frames / 10));
      const before = cpuMs() + (await childCpuMs());
      const { ms, sortedUs } = await run(link, bytes, Math.floor(inFlight), Math.floor(frames));
      const cpu = cpuMs() + (await childCpuMs()) - before;
      const megabytes = (Math.floor(frames) * bytes) / 1e6;
      const at = (share: number): string => (sortedUs[Math.floor(sortedUs.length * share)] ?? 0).toFixed(0);
      const columns: [string, number][] = [
        [String(bytes), 9],
        [String(Math.floor(inFlight)), 11],
        [(megabytes / (ms / 1000)).toFixed(0), 9],
        [(Math.floor(frames) / (ms / 1000)).toFixed(0), 11],
        [(cpu / megabytes).toFixed(2), 17],
        [at(0.5), 9],
        [at(0.99), 9],
      ];
      console.log(columns.map(([text, width]) => text.padStart(width)).join(""));
    }
  }
  link.close();
  child.disconnect();
}

if (process.argv[2] === "--serve") await serve(process.argv[3] ?? "127.0.0.1:0");
else await main(process.argv[2] ?? "tcp");
