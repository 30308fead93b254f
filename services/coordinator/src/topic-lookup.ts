import type { ClusterView } from "@sluice/catalog";
import type { TopicLookup } from "@sluice/core/group";
import { RESERVED_PREFIX, SluiceError, type TopicRecord } from "@sluice/core/model";
import { RE2JS } from "re2js";

/** Patterns that are remembered; the one used longest ago is forgotten first. */
const PATTERNS_MAX = 1_000;

interface Pattern {
  readonly compiled: RE2JS;
  /** Names that match, as of `version`. */
  names: readonly string[];
  version: number;
}

/**
 * Topics as groups see them. Patterns are RE2: their time is linear in the length of a name, whoever wrote them. Answers are kept until a topic
 * comes, goes or grows.
 */
export class ViewTopics implements TopicLookup {
  readonly #view: ClusterView;
  /** By `<tenant>/<pattern>`: what matches is each tenant's own. */
  readonly #patterns = new Map<string, Pattern>();
  readonly #unsubscribe: () => void;
  #version = 1;

  constructor(view: ClusterView) {
    this.#view = view;
    this.#unsubscribe = view.onChange((changes) => {
      if (changes.some((c) => c.kind === "topic")) this.#version += 1;
    });
  }
  close(): void {
    this.#unsubscribe();
  }
  /** Rises with every change of any topic. */
  get version(): number {
    return this.#version;
  }
  topic(tenant: string, name: string): { readonly topicId: string; readonly partitions: number } | undefined {
    const topic = this.#view.topic(tenant, name);
    return topic?.phase === "ACTIVE" ? topic : undefined;
  }
  nameOf(id: string): string | undefined {
    const topic = (this.#view.topicsById as ReadonlyMap<string, TopicRecord>).get(id);
    // The name of a deleted one may be another's.
    return topic?.phase === "ACTIVE" ? topic.name : undefined;
  }
  matching(tenant: string, pattern: string): readonly string[] {
    const known = this.#pattern(tenant, pattern);
    if (known.version === this.#version) return known.names;
    const names: string[] = [];
    for (const topic of this.#view.topicsById.values()) {
      if (topic.tenant !== tenant || topic.phase !== "ACTIVE" || topic.name.startsWith(RESERVED_PREFIX)) continue;
      if (known.compiled.matches(topic.name)) names.push(topic.name);
    }
    known.names = names.sort();
    known.version = this.#version;
    return known.names;
  }
  /** Throws INVALID_REGULAR_EXPRESSION. */
  checkPattern(tenant: string, pattern: string): void {
    if (pattern !== "") this.#pattern(tenant, pattern);
  }

  #pattern(tenant: string, pattern: string): Pattern {
    const key = `${tenant}/${pattern}`;
    let known = this.#patterns.get(key);
    if (known === undefined) {
      try {
        known = { compiled: RE2JS.compile(pattern), names: [], version: 0 };
      } catch (cause) {
        throw new SluiceError("INVALID_REGULAR_EXPRESSION", `the topic pattern cannot be compiled: ${String(cause).slice(0, 200)}`, {
          cause,
        });
      }
    }
    this.#patterns.delete(key);
    this.#patterns.set(key, known);
    const oldest = this.#patterns.keys().next();
    if (this.#patterns.size > PATTERNS_MAX && oldest.done !== true) this.#patterns.delete(oldest.value);
    return known;
  }
}
