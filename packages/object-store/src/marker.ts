import { SluiceError } from "@sluice/core/model";
import { objectStoreLimits } from "./limits.ts";
import type { CallOptions, ObjectStore } from "./port.ts";

/**
 * The object that says whose history this is:
 *
 *     cluster.json   {"format":1,"clusterId":"...","generation":3}
 *
 * Without it two clusters that were given one bucket by mistake would sweep each other's objects away.
 */
export const CLUSTER_MARKER_KEY = "cluster.json";
const FORMAT = 1;

interface Marker {
  readonly clusterId: string;
  readonly generation: number;
}

/**
 * Writes the marker when there is none; resolves when it names this cluster and generation, else rejects with CLUSTER_MISMATCH naming both.
 * The marker is always read back. When two clusters start on one empty bucket in the same moment, the last writer keeps it and the other
 * is refused when it checks again: check at every start, not only at the first.
 */
export async function checkClusterMarker(
  store: ObjectStore,
  clusterId: string,
  generation: number,
  options?: CallOptions,
): Promise<"written" | "matched"> {
  const found = await readMarker(store, options);
  if (found === undefined) await writeMarker(store, { clusterId, generation }, options);
  const marker = found ?? (await readMarker(store, options));
  if (marker?.clusterId !== clusterId || marker.generation !== generation) {
    const theirs = marker === undefined ? "no cluster" : `cluster ${marker.clusterId} generation ${marker.generation}`;
    throw new SluiceError(
      "CLUSTER_MISMATCH",
      `this is cluster ${clusterId} generation ${generation}, but the object store's ${CLUSTER_MARKER_KEY} names ${theirs}`,
    );
  }
  return found === undefined ? "written" : "matched";
}

async function writeMarker(store: ObjectStore, marker: Marker, options: CallOptions | undefined): Promise<void> {
  await store.put(CLUSTER_MARKER_KEY, [new TextEncoder().encode(`${JSON.stringify({ format: FORMAT, ...marker })}\n`)], options);
}

async function readMarker(store: ObjectStore, options: CallOptions | undefined): Promise<Marker | undefined> {
  const info = await store.head(CLUSTER_MARKER_KEY, options);
  if (info === undefined) return undefined;
  const bytes = await store.getRange(CLUSTER_MARKER_KEY, 0, Math.min(info.sizeBytes, objectStoreLimits.markerBytesMax), options);
  const marker = parsed(new TextDecoder().decode(bytes));
  if (marker === undefined) {
    throw new SluiceError(
      "CLUSTER_MISMATCH",
      `the object store's ${CLUSTER_MARKER_KEY} is not a marker of format ${FORMAT}: another program's?`,
    );
  }
  return marker;
}

function parsed(text: string): Marker | undefined {
  let value: Partial<Record<"format" | "clusterId" | "generation", unknown>> | null;
  try {
    value = JSON.parse(text) as typeof value;
  } catch {
    return undefined;
  }
  const { format, clusterId, generation } = value ?? {};
  return format === FORMAT && typeof clusterId === "string" && typeof generation === "number" ? { clusterId, generation } : undefined;
}
