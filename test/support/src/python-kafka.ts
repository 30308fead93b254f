import { pythonTool } from "./grpc-clients.ts";

/*
 * Python's two Kafka clients, with what they need for every codec.
 */
export const CONFLUENT_KAFKA_VERSION = "2.16.1";
export const KAFKA_PYTHON_VERSION = "3.0.12";
const VERSION = `${CONFLUENT_KAFKA_VERSION}-${KAFKA_PYTHON_VERSION}`;
const PACKAGES = [
  `confluent-kafka==${CONFLUENT_KAFKA_VERSION}`,
  `kafka-python==${KAFKA_PYTHON_VERSION}`,
  "lz4==4.4.5",
  "python-snappy==0.7.3",
  "zstandard==0.25.0",
  // Of kafka-python's own tests.
  "pytest==9.2.0",
  "pytest-mock==3.15.1",
  "pytest-timeout==2.4.0",
];

/** Path of a Python that has them. Throws, naming what is missing. */
export const ensurePythonKafka = (): Promise<string> =>
  pythonTool("python-kafka", VERSION, PACKAGES, "the suites of Python's Kafka clients need");
