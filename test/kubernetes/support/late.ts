import { REGISTRY, SERVER_TAG } from "./images.ts";

/** Values of a second, small installation whose etcd does not exist yet. */
export const lateValues = {
  image: { registry: REGISTRY },
  metadata: { endpoints: ["late-etcd:2379"] },
  proxy: { replicas: 1 },
  broker: { replicas: 1 },
  segmentStore: { replicas: 2, storage: { size: "1Gi" } },
  controller: { replicas: 1 },
  coordinator: { replicas: 1 },
  tests: { enabled: false },
};
/** That etcd, as somebody else would run it. */
export const lateEtcd = {
  apiVersion: "v1",
  kind: "List",
  items: [
    {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: "late-etcd" },
      spec: { selector: { app: "late-etcd" }, ports: [{ port: 2379 }] },
    },
    {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "late-etcd", labels: { app: "late-etcd" } },
      spec: {
        terminationGracePeriodSeconds: 1,
        securityContext: { runAsNonRoot: true, runAsUser: 65_532, fsGroup: 65_532, seccompProfile: { type: "RuntimeDefault" } },
        containers: [
          {
            name: "etcd",
            image: `${REGISTRY}/etcd:${SERVER_TAG}`,
            imagePullPolicy: "IfNotPresent",
            command: [
              "etcd",
              "--data-dir=/data",
              "--listen-client-urls=http://0.0.0.0:2379",
              "--advertise-client-urls=http://late-etcd:2379",
            ],
            securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } },
            volumeMounts: [{ name: "data", mountPath: "/data" }],
          },
        ],
        volumes: [{ name: "data", emptyDir: {} }],
      },
    },
  ],
};
