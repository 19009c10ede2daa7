"""Another team's program: a Job that asks the model which a splitserve stack serves.

It deploys nothing unless the last update of that stack passed its gate, and runs again when another release
is live.
"""

from __future__ import annotations

from pathlib import Path

import pulumi
import pulumi_kubernetes as k8s

from splitserve.outputs import Outputs, OutputsError, read

PROGRAM = Path(__file__).parent / "ask.py"
CA_FILE = "ca.pem"
MOUNT = "/etc/llm"
KEY = "api-key"
ANSWER_LIMIT_S = 300


async def main() -> dict[str, pulumi.Input[object]]:
    config = pulumi.Config()
    try:
        llm = (await read(config.require("llm"))).require_passed()
    except OutputsError as error:
        raise pulumi.RunError(str(error)) from None
    own_key = config.get("apiKeySecret")
    if llm.api_key_secret and not own_key:
        where = llm.api_key_secret
        raise pulumi.RunError(
            f"chat-client:apiKeySecret: found none, wanted a Secret of ours with one of the keys that {llm.stack} asks "
            f"for; have one added to Secret {where.name} of namespace {where.namespace}"
        )
    asked = declare(config.require("namespace"), config.require("image"), llm, own_key or None)
    return {"asked": asked.metadata.name, "release": llm.live.release, "kvTransferAgedMs": llm.live.kv_transfer_aged_ms}


def declare(namespace: str, image: str, llm: Outputs, own_key: str | None) -> k8s.batch.v1.Job:
    """The Job, and a ConfigMap with its program and what it needs to know of the model.

    Both get a new name when their content changes: so the question is asked anew of each release.
    """
    metadata = k8s.meta.v1.ObjectMetaArgs(namespace=namespace)
    files = {"ask.py": PROGRAM.read_text(), **({CA_FILE: llm.ca} if llm.ca else {})}
    program = k8s.core.v1.ConfigMap("llm", metadata=metadata, data=files)
    mounted = k8s.core.v1.VolumeArgs(
        name="llm", config_map=k8s.core.v1.ConfigMapVolumeSourceArgs(name=program.metadata.name)
    )
    pod = k8s.core.v1.PodSpecArgs(
        restart_policy="Never",
        automount_service_account_token=False,
        security_context=k8s.core.v1.PodSecurityContextArgs(run_as_non_root=True, run_as_user=65534),
        containers=[container(image, environment(llm, own_key))],
        volumes=[mounted],
    )
    spec = k8s.batch.v1.JobSpecArgs(
        backoff_limit=1,
        active_deadline_seconds=ANSWER_LIMIT_S,
        template=k8s.core.v1.PodTemplateSpecArgs(spec=pod),
    )
    return k8s.batch.v1.Job("ask", metadata=metadata, spec=spec)


def container(image: str, variables: list[k8s.core.v1.EnvVarArgs]) -> k8s.core.v1.ContainerArgs:
    return k8s.core.v1.ContainerArgs(
        name="ask",
        image=image,
        command=["python3", f"{MOUNT}/ask.py"],
        env=variables,
        resources=k8s.core.v1.ResourceRequirementsArgs(
            requests={"cpu": "10m", "memory": "64Mi"}, limits={"memory": "64Mi"}
        ),
        security_context=k8s.core.v1.SecurityContextArgs(
            allow_privilege_escalation=False, capabilities=k8s.core.v1.CapabilitiesArgs(drop=["ALL"])
        ),
        volume_mounts=[k8s.core.v1.VolumeMountArgs(name="llm", mount_path=MOUNT, read_only=True)],
    )


def environment(llm: Outputs, own_key: str | None) -> list[k8s.core.v1.EnvVarArgs]:
    """What the client is told. The API key comes from the team's own Secret and is in no state."""
    told = {"LLM_ENDPOINT": llm.endpoint, "LLM_MODEL": llm.model, "LLM_RELEASE": llm.live.release}
    told |= {"SSL_CERT_FILE": f"{MOUNT}/{CA_FILE}"} if llm.ca else {}
    variables = [k8s.core.v1.EnvVarArgs(name=name, value=value) for name, value in told.items()]
    if own_key:
        key = k8s.core.v1.SecretKeySelectorArgs(name=own_key, key=KEY)
        source = k8s.core.v1.EnvVarSourceArgs(secret_key_ref=key)
        variables.append(k8s.core.v1.EnvVarArgs(name="LLM_API_KEY", value_from=source))
    return variables


pulumi.run(main)
