// Serve a model by the package: `pulumi package add PATH_OF_SPLITSERVE/package` has written its SDK.
import * as pulumi from "@pulumi/pulumi";
import * as splitserve from "@pulumi/splitserve";

const config = new pulumi.Config();

const served = new splitserve.Serving("chat", {
  platform: { kind: "existing", kubeconfig: config.require("kubeconfig"), namespace: "chat-typescript" },
  image: "registry.example/vllm@sha256:1111111111111111111111111111111111111111111111111111111111111111",
  model: {
    name: config.require("model"),
    huggingFace: {
      repository: "Qwen/Qwen3-0.6B",
      revision: "c1899de289a04d12100db370d81485cdf75e47ca",
      config: "model/config.json",
    },
  },
  engine: { resources: { cpu: "1", memory: "4Gi", shm: "1Gi" } },
  gate: { limitMs: 100, age: "off" },
});

export const endpoint = served.endpoint;
export const model = served.model;
export const release = served.live;
export const kvTransferMs: pulumi.Output<number | undefined> = served.kvTransferMs;
export const whyNot = served.lastUpdate.apply((last) => (last.verdict === "pass" ? "" : last.message));
