"""The provider's configuration: region, credentials, endpoints, default tags. Pure."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tools.awsim.properties import Properties

TAKEN = {"region", "accessKey", "secretKey", "token", "defaultTags", "endpoints"}
LEFT_OUT = {"skipCredentialsValidation", "skipRequestingAccountId", "skipMetadataApiCheck", "skipRegionValidation",
            "s3UsePathStyle", "allowedAccountIds", "maxRetries", "retryMode", "version", "pluginDownloadURL"}  # fmt: skip
"""Arguments of pulumi_aws that change nothing here."""
SERVICES = {"cloudwatchlogs": "logs", "loadbalancer": "elbv2", "elb": "elbv2", "lb": "elbv2"}


class ConfigurationFault(ValueError):
    """An argument that the stand-in does not know."""


@dataclass(frozen=True)
class Configuration:
    """What a provider resource, or the default provider, is set to."""

    region: str
    credentials: dict[str, str] = field(default_factory=dict)
    endpoints: dict[str, str] = field(default_factory=dict)
    default_tags: dict[str, str] = field(default_factory=dict)


def read_configuration(arguments: Properties, environment: Mapping[str, str] = os.environ) -> Configuration:
    """From the provider's arguments; anything but text comes as JSON text."""
    given: dict[str, Any] = {key: _plain(value) for key, value in arguments.items()}
    unknown = given.keys() - TAKEN - LEFT_OUT
    if unknown:
        raise ConfigurationFault(f"the AWS stand-in has no provider argument {', '.join(sorted(unknown))}")
    region = given.get("region") or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    if not region:
        raise ConfigurationFault("no AWS region: set aws:region, or AWS_REGION")
    names = {"accessKey": "aws_access_key_id", "secretKey": "aws_secret_access_key", "token": "aws_session_token"}
    return Configuration(
        region,
        {names[key]: given[key] for key in names if given.get(key)},
        _endpoints(given.get("endpoints") or []),
        (given.get("defaultTags") or {}).get("tags") or {},
    )


def _endpoints(entries: list[dict[str, str]]) -> dict[str, str]:
    """By botocore's service names."""
    return {SERVICES.get(key, key): url for entry in entries for key, url in entry.items() if url}


def _plain(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in "[{":
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value
