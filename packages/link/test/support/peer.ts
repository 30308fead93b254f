// A listening peer in a process of its own: prints its address, answers produce frames.
import { listenLinks, producedCodec, produceCodec, FrameType } from "../../src/index.ts";
import { contextOf } from "./context.ts";

const answer = producedCodec.create();
const produce = produceCodec.create();
const server = await listenLinks(contextOf("broker-9"), {
  address: process.argv[2] ?? "127.0.0.1:0",
  handlers: {
    onFrame(link, frame) {
      if (frame.type !== FrameType.produce) return;
      produceCodec.decode(frame, produce);
      answer.baseOffset = frame.payload.length;
      link.send(producedCodec, frame.correlation, answer);
      link.release(frame.creditBytes);
    },
  },
});
process.stdout.write(`${server.address}\n`);
