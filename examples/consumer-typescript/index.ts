// Another team's program in TypeScript: the contract's outputs by plain stack reference.
// What each means: docs/reference/outputs.md.
import * as pulumi from "@pulumi/pulumi";

const CONTRACT = 1;

/** As far as this program needs it. A stack reference leaves out what is null. */
interface Outputs {
    contract: number;
    endpoint: string;
    ca: string; // PEM, or empty
    model: string;
    apiKeySecret: { namespace?: string; name?: string; key?: string }; // empty: no key is asked for
    live?: string; // missing until a release has passed its gate
    verdict: "pass" | "fail" | "inconclusive";
    lastUpdate: { release: string; cause: string; message: string; fix: string };
    ledger: { live?: { measured?: { kv_transfer_ms?: number; kv_transfer_aged_ms?: number } } };
}

/** The outputs of a stack whose last update passed. Throws, with what to do, for any other. */
function requirePassed(stack: string, values: Record<string, unknown>): Outputs & { live: string } {
    if (Object.keys(values).length === 0) {
        throw new pulumi.RunError(`stack ${stack}: not up; run \`pulumi up --stack ${stack}\``);
    }
    if (values.contract !== CONTRACT) {
        throw new pulumi.RunError(
            `stack ${stack}: found contract ${values.contract ?? "none"}, wanted ${CONTRACT}; ` +
                "update that stack, or this program",
        );
    }
    const outputs = values as unknown as Outputs;
    const { release, cause, message, fix } = outputs.lastUpdate;
    if (outputs.live === undefined || outputs.verdict !== "pass") {
        throw new pulumi.RunError(
            `stack ${stack}: the last update judged release ${release}: ${outputs.verdict}, ${cause}: ${message}; ` +
                `${outputs.live === undefined ? "none is live" : `release ${outputs.live} is live still`}; ${fix}`,
        );
    }
    return { ...outputs, live: outputs.live };
}

const stack = new pulumi.Config().require("llm");
const llm = new pulumi.StackReference(stack).outputs.apply((values) => requirePassed(stack, values));

// Hand these to a container's environment, as examples/consumer does.
export const environment = llm.apply(({ endpoint, model, live }) => ({
    LLM_ENDPOINT: endpoint,
    LLM_MODEL: model,
    LLM_RELEASE: live,
}));
export const ca = llm.apply((outputs) => outputs.ca || undefined);
export const keysIn = llm.apply(({ apiKeySecret }) =>
    apiKeySecret.name === undefined ? undefined : `${apiKeySecret.namespace}/${apiKeySecret.name}`,
);
export const kvTransferAgedMs = llm.apply((outputs) => outputs.ledger.live?.measured?.kv_transfer_aged_ms);
