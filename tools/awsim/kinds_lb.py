"""Load balancers, target groups, listeners, and their tie to an Auto Scaling group."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

from tools.awsim.asking import Aws
from tools.awsim.kind import Kind, changed
from tools.awsim.properties import Properties
from tools.awsim.tagging import call_tagging, from_list

ELB, SCALING = "elbv2", "autoscaling"
TAGGING = call_tagging(ELB, "AddTags", "RemoveTags", "ResourceArns", "TagKeys", many=True)


def as_attributes(inputs: Properties, names: Mapping[str, str]) -> list[dict[str, str]]:
    """Inputs as the key-value attributes of the ELB API. `accessLogs.bucket` reads one level down."""
    found = []
    for path, key in names.items():
        value: Any = inputs
        for step in path.split("."):
            value = value.get(step) if isinstance(value, dict) else None
        if value is not None:
            found.append({"Key": key, "Value": str(value).lower() if isinstance(value, bool) else str(value)})
    return found


def from_attributes(attributes: list[dict[str, str]], names: Mapping[str, str], known: Properties) -> Properties:
    """The attributes that the inputs name, in the inputs' types."""
    values = {attribute["Key"]: attribute["Value"] for attribute in attributes}
    result: Properties = {}
    for path, key in names.items():
        top, _, below = path.partition(".")
        if top not in known or key not in values:
            continue
        text = values[key]
        value: Any = text == "true" if text in ("true", "false") else int(text) if text.isdigit() else text
        if below:
            result.setdefault(top, {})[below] = value
        else:
            result[top] = value
    return result


class LoadBalancer(Kind):
    token = "aws:lb/loadBalancer:LoadBalancer"
    service, create_action = ELB, "CreateLoadBalancer"
    renames = {"loadBalancerType": "Type", "subnetMappings.privateIpv4Address": "PrivateIPv4Address"}
    ATTRIBUTES = {
        "idleTimeout": "idle_timeout.timeout_seconds", "enableDeletionProtection": "deletion_protection.enabled",
        "enableCrossZoneLoadBalancing": "load_balancing.cross_zone.enabled", "accessLogs.bucket": "access_logs.s3.bucket",
        "accessLogs.prefix": "access_logs.s3.prefix", "accessLogs.enabled": "access_logs.s3.enabled",
        "enableHttp2": "routing.http2.enabled", "desyncMitigationMode": "routing.http.desync_mitigation_mode",
        "dropInvalidHeaderFields": "routing.http.drop_invalid_header_fields.enabled",
        "preserveHostHeader": "routing.http.preserve_host_header.enabled",
        "clientKeepAlive": "client_keep_alive.seconds", "dnsRecordClientRoutingPolicy": "dns_record.client_routing_policy",
    }  # fmt: skip
    aside = frozenset(path.split(".")[0] for path in ATTRIBUTES)
    forces_new = frozenset({"name", "namePrefix", "internal", "loadBalancerType", "customerOwnedIpv4Pool"})
    computed = ("arn", "arnSuffix", "dnsName", "vpcId", "zoneId", "name")
    defaults = {"internal": False, "loadBalancerType": "application", "enableDeletionProtection": False}
    told = ("name", "internal", "loadBalancerType", "subnets", "securityGroups", "ipAddressType")
    name_input, prefix_input, name_length = "name", "namePrefix", 32
    tagging = TAGGING

    def known_inputs(self, inputs: Properties) -> Properties:
        given = super().known_inputs(inputs)
        internal = given.pop("internal", None)
        return given if internal is None else {**given, "scheme": "internal" if internal is True else "internet-facing"}

    def identity(self, answer: dict[str, Any], inputs: Properties) -> str:
        return answer["LoadBalancers"][0]["LoadBalancerArn"]

    def settle(self, aws: Aws, resource: str, inputs: Properties) -> None:
        attributes = as_attributes(inputs, self.ATTRIBUTES)
        if attributes:
            aws.call(ELB, "ModifyLoadBalancerAttributes", LoadBalancerArn=resource, Attributes=attributes)

    def update(self, aws: Aws, resource: str, old: Properties, new: Properties) -> None:
        if changed(old, new, *self.aside):
            self.settle(aws, resource, new)
        if changed(old, new, "subnets", "subnetMappings"):
            given = {key: value for key, value in self.parameters(new).items() if key in ("Subnets", "SubnetMappings")}
            aws.call(ELB, "SetSubnets", LoadBalancerArn=resource, **given)
        if changed(old, new, "securityGroups"):
            aws.call(ELB, "SetSecurityGroups", LoadBalancerArn=resource, SecurityGroups=new.get("securityGroups", []))
        if changed(old, new, "ipAddressType") and "ipAddressType" in new:
            aws.call(ELB, "SetIpAddressType", LoadBalancerArn=resource, IpAddressType=new["ipAddressType"])

    def read(self, aws: Aws, resource: str, known: Properties) -> Properties | None:
        answer = aws.found(ELB, "DescribeLoadBalancers", LoadBalancerArns=[resource])
        if not answer or not answer["LoadBalancers"]:
            return None
        found = answer["LoadBalancers"][0]
        attributes = aws.call(ELB, "DescribeLoadBalancerAttributes", LoadBalancerArn=resource)["Attributes"]
        zones = found.get("AvailabilityZones", [])
        return {
            "arn": resource, "arnSuffix": resource.split(":loadbalancer/")[1], "name": found["LoadBalancerName"],
            "dnsName": found["DNSName"], "zoneId": found.get("CanonicalHostedZoneId"), "vpcId": found.get("VpcId"),
            "internal": found.get("Scheme") == "internal", "loadBalancerType": found["Type"],
            "subnets": None if known.get("subnetMappings") else [zone["SubnetId"] for zone in zones],
            "securityGroups": found.get("SecurityGroups", []), "ipAddressType": found.get("IpAddressType"),
            **from_attributes(attributes, self.ATTRIBUTES, known), "tags": _tags(aws, resource),
        }  # fmt: skip

    def delete(self, aws: Aws, resource: str, state: Properties) -> None:
        aws.remove(ELB, "DeleteLoadBalancer", LoadBalancerArn=resource)


def _tags(aws: Aws, resource: str) -> dict[str, str]:
    described = aws.call(ELB, "DescribeTags", ResourceArns=[resource])["TagDescriptions"]
    return from_list(described[0]["Tags"] if described else [])


class TargetGroup(Kind):
    token = "aws:lb/targetGroup:TargetGroup"
    service, create_action = ELB, "CreateTargetGroup"
    ATTRIBUTES = {
        "deregistrationDelay": "deregistration_delay.timeout_seconds", "preserveClientIp": "preserve_client_ip.enabled",
        "connectionTermination": "deregistration_delay.connection_termination.enabled",
        "stickiness.enabled": "stickiness.enabled", "stickiness.type": "stickiness.type",
        "stickiness.cookieDuration": "stickiness.lb_cookie.duration_seconds", "slowStart": "slow_start.duration_seconds",
        "proxyProtocolV2": "proxy_protocol_v2.enabled", "loadBalancingAlgorithmType": "load_balancing.algorithm.type",
        "loadBalancingCrossZoneEnabled": "load_balancing.cross_zone.enabled",
    }  # fmt: skip
    HEALTH = {
        "enabled": "HealthCheckEnabled", "protocol": "HealthCheckProtocol", "port": "HealthCheckPort",
        "path": "HealthCheckPath", "interval": "HealthCheckIntervalSeconds", "timeout": "HealthCheckTimeoutSeconds",
        "healthyThreshold": "HealthyThresholdCount", "unhealthyThreshold": "UnhealthyThresholdCount",
    }  # fmt: skip
    aside = frozenset(path.split(".")[0] for path in ATTRIBUTES)
    forces_new = frozenset({"name", "namePrefix", "port", "protocol", "protocolVersion", "vpcId", "targetType",
                            "ipAddressType"})  # fmt: skip
    computed = ("arn", "arnSuffix", "name", "loadBalancerArns")
    defaults = {"targetType": "instance"}
    told = ("name", "port", "protocol", "vpcId", "targetType", "healthCheck")
    name_input, prefix_input, name_length = "name", "namePrefix", 32
    tagging = TAGGING

    def known_inputs(self, inputs: Properties) -> Properties:
        given = super().known_inputs(inputs)
        check = given.pop("healthCheck", None)
        return {**given, **self._health(check)} if isinstance(check, dict) else given

    def _health(self, check: Properties) -> dict[str, Any]:
        found = {self.HEALTH.get(key, key): value for key, value in check.items() if key != "matcher"}
        return found | ({"Matcher": {"HttpCode": check["matcher"]}} if check.get("matcher") else {})

    def identity(self, answer: dict[str, Any], inputs: Properties) -> str:
        return answer["TargetGroups"][0]["TargetGroupArn"]

    def settle(self, aws: Aws, resource: str, inputs: Properties) -> None:
        attributes = as_attributes(inputs, self.ATTRIBUTES)
        if attributes:
            aws.call(ELB, "ModifyTargetGroupAttributes", TargetGroupArn=resource, Attributes=attributes)

    def update(self, aws: Aws, resource: str, old: Properties, new: Properties) -> None:
        if changed(old, new, *self.aside):
            self.settle(aws, resource, new)
        if changed(old, new, "healthCheck") and "healthCheck" in new:
            aws.call(ELB, "ModifyTargetGroup", TargetGroupArn=resource, **self._health(new["healthCheck"]))

    def read(self, aws: Aws, resource: str, known: Properties) -> Properties | None:
        answer = aws.found(ELB, "DescribeTargetGroups", TargetGroupArns=[resource])
        if not answer or not answer["TargetGroups"]:
            return None
        found = answer["TargetGroups"][0]
        attributes = aws.call(ELB, "DescribeTargetGroupAttributes", TargetGroupArn=resource)["Attributes"]
        check = {key: found[name] for key, name in self.HEALTH.items() if found.get(name) is not None}
        if found.get("Matcher", {}).get("HttpCode"):
            check["matcher"] = found["Matcher"]["HttpCode"]
        return {
            "arn": resource, "arnSuffix": resource.rsplit(":", 1)[1], "name": found["TargetGroupName"],
            "port": found.get("Port"), "protocol": found.get("Protocol"), "vpcId": found.get("VpcId"),
            "targetType": found.get("TargetType"), "healthCheck": check,
            "loadBalancerArns": found.get("LoadBalancerArns", []),
            **from_attributes(attributes, self.ATTRIBUTES, known), "tags": _tags(aws, resource),
        }  # fmt: skip

    def delete(self, aws: Aws, resource: str, state: Properties) -> None:
        aws.remove(ELB, "DeleteTargetGroup", TargetGroupArn=resource)


class Listener(Kind):
    token = "aws:lb/listener:Listener"
    service, create_action = ELB, "CreateListener"
    renames = {
        "defaultActions.fixedResponse": "FixedResponseConfig", "defaultActions.forward": "ForwardConfig",
        "defaultActions.redirect": "RedirectConfig", "defaultActions.forward.targetGroups.arn": "TargetGroupArn",
        "defaultActions.forward.stickiness": "TargetGroupStickinessConfig",
        "defaultActions.forward.stickiness.duration": "DurationSeconds",
        "defaultActions.authenticateOidc": "AuthenticateOidcConfig",
    }  # fmt: skip
    ATTRIBUTES = {"tcpIdleTimeoutSeconds": "tcp.idle_timeout.seconds"}
    aside = frozenset(ATTRIBUTES)
    forces_new = frozenset({"loadBalancerArn"})
    computed = ("arn", "sslPolicy", "protocol")
    told = ("loadBalancerArn", "port", "protocol", "sslPolicy", "certificateArn")
    tagging = TAGGING

    def known_inputs(self, inputs: Properties) -> Properties:
        given = super().known_inputs(inputs)
        if "certificateArn" in given:
            given["certificates"] = [{"certificateArn": given.pop("certificateArn")}]
        return given

    def identity(self, answer: dict[str, Any], inputs: Properties) -> str:
        return answer["Listeners"][0]["ListenerArn"]

    def settle(self, aws: Aws, resource: str, inputs: Properties) -> None:
        attributes = as_attributes(inputs, self.ATTRIBUTES)
        if attributes:
            aws.call(ELB, "ModifyListenerAttributes", ListenerArn=resource, Attributes=attributes)

    def update(self, aws: Aws, resource: str, old: Properties, new: Properties) -> None:
        keys = ("port", "protocol", "sslPolicy", "certificateArn", "defaultActions", "alpnPolicy")
        if changed(old, new, *keys):
            given = {
                key: value for key, value in self.parameters(new).items() if key not in ("LoadBalancerArn", "Tags")
            }
            aws.call(ELB, "ModifyListener", ListenerArn=resource, **given)
        if changed(old, new, *self.aside):
            self.settle(aws, resource, new)

    def read(self, aws: Aws, resource: str, known: Properties) -> Properties | None:
        answer = aws.found(ELB, "DescribeListeners", ListenerArns=[resource])
        if not answer or not answer["Listeners"]:
            return None
        found = answer["Listeners"][0]
        certificates = found.get("Certificates") or [{}]
        return {"arn": resource, "loadBalancerArn": found["LoadBalancerArn"], "port": found.get("Port"),
                "protocol": found.get("Protocol"), "sslPolicy": found.get("SslPolicy") or None,
                "certificateArn": certificates[0].get("CertificateArn"), "tags": _tags(aws, resource)}  # fmt: skip

    def delete(self, aws: Aws, resource: str, state: Properties) -> None:
        aws.remove(ELB, "DeleteListener", ListenerArn=resource)


class Attachment(Kind):
    token = "aws:autoscaling/attachment:Attachment"
    service, create_action = SCALING, "AttachLoadBalancerTargetGroups"
    renames = {"autoscalingGroupName": "AutoScalingGroupName", "lbTargetGroupArn": "TargetGroupARNs"}
    forces_new = frozenset({"autoscalingGroupName", "lbTargetGroupArn"})
    told = ("autoscalingGroupName", "lbTargetGroupArn")

    def identity(self, answer: dict[str, Any], inputs: Properties) -> str:
        name = inputs["autoscalingGroupName"]
        return f"{name}-{zlib.crc32(inputs['lbTargetGroupArn'].encode())}"

    def read(self, aws: Aws, resource: str, known: Properties) -> Properties | None:
        place = {"AutoScalingGroupNames": [known["autoscalingGroupName"]]}
        groups = aws.call(SCALING, "DescribeAutoScalingGroups", **place)["AutoScalingGroups"]
        target = known["lbTargetGroupArn"]
        attached = bool(groups) and target in groups[0].get("TargetGroupARNs", [])
        return {"autoscalingGroupName": known["autoscalingGroupName"], "lbTargetGroupArn": target} if attached else None

    def delete(self, aws: Aws, resource: str, state: Properties) -> None:
        if self.read(aws, resource, state):
            aws.remove(SCALING, "DetachLoadBalancerTargetGroups", AutoScalingGroupName=state["autoscalingGroupName"],
                       TargetGroupARNs=[state["lbTargetGroupArn"]])  # fmt: skip


KINDS = (LoadBalancer, TargetGroup, Listener, Attachment)
