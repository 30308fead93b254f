import { join } from "node:path";
import { ensurePythonKafka } from "@sluice/test-support";
import { programClient } from "./client.ts";

const script = (name: string) => async (): Promise<string[]> => [await ensurePythonKafka(), join(import.meta.dirname, name)];
export const confluentClient = programClient("confluent-kafka", script("confluent.py"));
export const kafkaPythonClient = programClient("kafka-python", script("kafka_python.py"));
