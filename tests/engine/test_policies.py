"""The policy pack in the real engine: one program that violates every rule, one that satisfies them all.

Previews only, so that no cloud and no cluster is needed: Kubernetes' provider renders to a folder, and
AWS's is an echo, whose resources are their inputs with an id that is not known yet.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from policies.all_rules import rules
from tools.cache import CHECKOUT, cache
from tools.local import full_environment
from tools.own_engine import backend_url

STACK = "prod-policies"
"""Production: the rules for elsewhere are told otherwise by the policy configuration."""
CONFIG = {"no-public-endpoint-elsewhere": {"productionStacks": ["none"]}}

ECHO = """
from concurrent import futures
import sys, threading
import grpc
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


class Echo(provider_pb2_grpc.ResourceProviderServicer):
    def GetPluginInfo(self, request, context):
        return plugin_pb2.PluginInfo(version="VERSION")

    def CheckConfig(self, request, context):
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request, context):
        return provider_pb2.DiffResponse()

    def Configure(self, request, context):
        return provider_pb2.ConfigureResponse(supportsPreview=True)

    def Check(self, request, context):
        return provider_pb2.CheckResponse(inputs=request.news)

    def Create(self, request, context):
        assert request.preview
        request.properties.update({"id": UNKNOWN, "arn": UNKNOWN})
        return provider_pb2.CreateResponse(properties=request.properties)


server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
provider_pb2_grpc.add_ResourceProviderServicer_to_server(Echo(), server)
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
threading.Event().wait()
"""

HEAD = """
import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as k8s

cloud = aws.Provider("cloud", region="us-east-1", skip_credentials_validation=True)
cluster_provider = k8s.Provider("rendered", render_yaml_to_directory="rendered")
IN_AWS = pulumi.ResourceOptions(provider=cloud)
IN_CLUSTER = pulumi.ResourceOptions(provider=cluster_provider)
vpc = aws.ec2.Vpc("vpc", cidr_block="10.0.0.0/16", opts=IN_AWS)


def subnet(zone, block):
    return aws.ec2.Subnet(f"subnet-{zone}", vpc_id=vpc.id, availability_zone=zone, cidr_block=block, opts=IN_AWS)


def deployment(name, labels, annotations, container):
    k8s.apps.v1.Deployment(
        name,
        metadata={"name": name, "namespace": "serving"},
        spec={
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels, "annotations": annotations}, "spec": {"containers": [container]}},
        },
        opts=IN_CLUSTER,
    )
"""

VIOLATING = """
world = [{"protocol": "-1", "from_port": 0, "to_port": 0, "cidr_blocks": ["0.0.0.0/0"]}]
group = aws.ec2.SecurityGroup("efa", vpc_id=vpc.id, ingress=world, egress=world, opts=IN_AWS)
template = aws.ec2.LaunchTemplate(
    "gpu",
    instance_type="p5.48xlarge",
    network_interfaces=[
        {"network_card_index": 0, "device_index": 0, "interface_type": "efa", "security_groups": [group.id]}
    ],
    block_device_mappings=[{"device_name": "/dev/xvda", "ebs": {"volume_size": 100}}],
    opts=IN_AWS,
)
cluster = aws.eks.Cluster("eks", role_arn="arn:aws:iam::1:role/eks", vpc_config={"subnet_ids": []}, opts=IN_AWS)
for tier, zone, block in (("prefill", "us-east-1a", "10.0.0.0/20"), ("decode", "us-east-1b", "10.0.16.0/20")):
    aws.eks.NodeGroup(
        tier,
        cluster_name=cluster.name,
        node_role_arn="arn:aws:iam::1:role/nodes",
        subnet_ids=[subnet(zone, block).id],
        labels={f"splitserve.dev/nodes-{tier}": "1a2b3c4d"},
        launch_template={"id": template.id, "version": "1"},
        scaling_config={"desired_size": 1, "max_size": 100, "min_size": 1},
        opts=IN_AWS,
    )
aws.s3.Bucket("logs", opts=IN_AWS)
aws.ebs.Volume("scratch", availability_zone="us-east-1a", size=10, opts=IN_AWS)
aws.kms.Key("secrets", opts=IN_AWS)
aws.cloudwatch.LogGroup("control-plane", opts=IN_AWS)
balancer = aws.lb.LoadBalancer("edge", load_balancer_type="network", opts=IN_AWS)
target = aws.lb.TargetGroup("router", port=8080, protocol="TCP", vpc_id=vpc.id, opts=IN_AWS)
aws.lb.Listener(
    "front",
    load_balancer_arn=balancer.arn,
    port=80,
    protocol="TCP",
    default_actions=[{"type": "forward", "target_group_arn": target.arn}],
    opts=IN_AWS,
)
deployment("prefill", {"splitserve.dev/tier": "prefill"}, {}, {
    "name": "vllm",
    "image": "vllm/vllm-openai:latest",
    "resources": {"limits": {"vpc.amazonaws.com/efa": "4"}},
    "securityContext": {"privileged": True},
})
"""

SATISFYING = """
from components.hardware.catalogue import instance
from components.hardware.interfaces import layout

TAGS = {"splitserve:stack": "prod"}
key = aws.kms.Key("secrets", enable_key_rotation=True, tags=TAGS, opts=IN_AWS)
group = aws.ec2.SecurityGroup("efa", vpc_id=vpc.id, opts=IN_AWS)
for direction in (aws.vpc.SecurityGroupIngressRule, aws.vpc.SecurityGroupEgressRule):
    direction(
        f"efa-{direction.__name__}",
        security_group_id=group.id,
        referenced_security_group_id=group.id,
        ip_protocol="-1",
        opts=IN_AWS,
    )
template = aws.ec2.LaunchTemplate(
    "gpu",
    instance_type="p5.48xlarge",
    network_interfaces=[
        {
            "network_card_index": i.card,
            "device_index": i.device,
            "interface_type": i.kind,
            "security_groups": [group.id],
        }
        for i in layout(instance("p5.48xlarge"))
    ],
    metadata_options={"http_tokens": "required"},
    block_device_mappings=[{"device_name": "/dev/xvda", "ebs": {"volume_size": 100, "encrypted": "true"}}],
    tags=TAGS,
    tag_specifications=[{"resource_type": kind, "tags": TAGS} for kind in ("instance", "volume")],
    opts=IN_AWS,
)
zone = subnet("us-east-1a", "10.0.0.0/20")
cluster = aws.eks.Cluster(
    "eks",
    role_arn="arn:aws:iam::1:role/eks",
    vpc_config={"subnet_ids": [zone.id], "endpoint_public_access": False, "endpoint_private_access": True},
    encryption_config={"resources": ["secrets"], "provider": {"key_arn": key.arn}},
    enabled_cluster_log_types=["api", "audit", "authenticator"],
    tags=TAGS,
    opts=IN_AWS,
)
for tier in ("prefill", "decode"):
    aws.eks.NodeGroup(
        tier,
        cluster_name="eks",
        node_role_arn="arn:aws:iam::1:role/nodes",
        subnet_ids=[zone.id],
        labels={f"splitserve.dev/nodes-{tier}": "1a2b3c4d"},
        launch_template={"id": template.id, "version": "1"},
        scaling_config={"desired_size": 1, "max_size": 4, "min_size": 1},
        tags=TAGS,
        opts=IN_AWS,
    )
bucket = aws.s3.Bucket("logs", tags=TAGS, opts=IN_AWS)
aws.s3.BucketServerSideEncryptionConfiguration(
    "logs",
    bucket=bucket.id,
    rules=[{"apply_server_side_encryption_by_default": {"sse_algorithm": "AES256"}}],
    opts=IN_AWS,
)
aws.s3.BucketPublicAccessBlock(
    "logs",
    bucket=bucket.id,
    block_public_acls=True,
    block_public_policy=True,
    ignore_public_acls=True,
    restrict_public_buckets=True,
    opts=IN_AWS,
)
aws.ebs.Volume("scratch", availability_zone="us-east-1a", size=10, encrypted=True, tags=TAGS, opts=IN_AWS)
aws.cloudwatch.LogGroup("control-plane", retention_in_days=30, tags=TAGS, opts=IN_AWS)
balancer = aws.lb.LoadBalancer(
    "edge",
    load_balancer_type="network",
    enable_deletion_protection=True,
    access_logs={"bucket": bucket.id, "enabled": True},
    tags=TAGS,
    opts=IN_AWS,
)
target = aws.lb.TargetGroup("router", port=8080, protocol="TCP", vpc_id=vpc.id, opts=IN_AWS)
aws.lb.Listener(
    "front",
    load_balancer_arn=balancer.arn,
    port=443,
    protocol="TLS",
    certificate_arn="arn:aws:acm:us-east-1:1:certificate/c",
    default_actions=[{"type": "forward", "target_group_arn": target.arn}],
    opts=IN_AWS,
)
LABELS = {"splitserve.dev/tier": "prefill"}
deployment("prefill", LABELS, {"splitserve.dev/image-efa": "true"}, {
    "name": "vllm",
    "image": "registry.example.com/vllm-efa@sha256:" + "a" * 64,
    "resources": {"limits": {"vpc.amazonaws.com/efa": "4"}},
    "securityContext": {"allowPrivilegeEscalation": False},
})
for name, selector, more in (
    ("deny", {}, {}),
    ("prefill", {"matchLabels": LABELS}, {"ingress": [{"from": [{"podSelector": {"matchLabels": LABELS}}]}]}),
):
    k8s.networking.v1.NetworkPolicy(
        name,
        metadata={"name": name, "namespace": "serving"},
        spec={"podSelector": selector, "policyTypes": ["Ingress"], **more},
        opts=IN_CLUSTER,
    )
"""

Preview = Callable[[str], Any]


@pytest.fixture
def preview(tmp_path: Path) -> Preview:
    """Preview a program with the pack, in a project and backend of the test's own."""
    _make_echo(tmp_path / "bin" / "pulumi-resource-aws")
    environment = {
        **os.environ, **full_environment(cache()), "PULUMI_BACKEND_URL": backend_url(tmp_path),
        "PULUMI_CONFIG_PASSPHRASE": "test",
    }  # fmt: skip
    del environment["KUBECONFIG"]  # rendering wants none
    environment["PATH"] = f"{tmp_path / 'bin'}:{environment['PATH']}"
    assert shutil.which("pulumi", path=environment["PATH"]), "no pulumi: run `make start` first"
    project, config = tmp_path / "project", tmp_path / "policies.json"
    project.mkdir()
    (project / "Pulumi.yaml").write_text("name: policies-test\nruntime: python\n")
    config.write_text(json.dumps(CONFIG))
    pack = ["--policy-pack", str(CHECKOUT / "policies"), "--policy-pack-config", str(config)]

    def run(*arguments: str) -> Any:
        return subprocess.run(
            ["pulumi", *arguments, "--stack", STACK, "--non-interactive", "--color", "never"], cwd=project,
            env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
        )  # fmt: skip

    def preview(program: str) -> Any:
        (project / "__main__.py").write_text(HEAD + program)
        made = run("stack", "init")
        assert made.returncode == 0, made.stdout
        return run("preview", *pack)

    return preview


def _make_echo(plugin: Path) -> None:
    """On PATH, where the engine prefers it to any version in its plugin folder."""
    plugin.parent.mkdir()
    plugin.write_text(f"#!{sys.executable}\n" + ECHO.replace("VERSION", version("pulumi-aws")))
    plugin.chmod(0o755)


def reported(text: str) -> dict[str, str]:
    """The level of every rule that a preview reports, from lines like `- [mandatory]  NAME  (TYPE: RESOURCE)`."""
    return {name: level for level, name in re.findall(r"- \[(mandatory|advisory)\] +(\S+) +\(", text)}


def test_one_preview_reports_every_rule_at_its_level(preview: Preview) -> None:
    finished = preview(VIOLATING)
    assert finished.returncode != 0, finished.stdout
    assert reported(finished.stdout) == {rule.name: rule.level for rule in rules()}, finished.stdout
    for words in ("SecurityGroup", "us-east-1b: decode in subnet-us-east-1b", "maxSize 100", "the tag `latest`"):
        assert words in finished.stdout
    assert "Traceback" not in finished.stdout


def test_a_program_that_holds_to_them_passes_and_nothing_is_left_undecided(preview: Preview) -> None:
    finished = preview(SATISFYING)
    assert finished.returncode == 0, finished.stdout
    assert reported(finished.stdout) == {}, finished.stdout
    assert "can't run policy" not in finished.stdout
