/**
 * Loaded into the services of a test that measures memory (`--import`). V8 keeps what nobody holds until it pays to collect it, tens of MiB that
 * come and go with the rate of work. Here it collects several times a second, so that what the test sees is what the service holds.
 */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

const EVERY_MS = 400;

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;
setFlagsFromString("--no-expose-gc");
setInterval(collect, EVERY_MS).unref();
