"""The data sources that the stand-in provider knows."""

from __future__ import annotations

from collections.abc import Callable

from tools.awsim.asking import Aws, AwsError
from tools.awsim.properties import Properties


def _caller_identity(aws: Aws, arguments: Properties) -> Properties:
    found = aws.call("sts", "GetCallerIdentity")
    return {"accountId": found["Account"], "arn": found["Arn"], "userId": found["UserId"], "id": found["Account"]}


def _partition(aws: Aws, arguments: Properties) -> Properties:
    return {"partition": "aws", "dnsSuffix": "amazonaws.com", "id": "aws", "reverseDnsPrefix": "com.amazonaws",
            "region": aws.region}  # fmt: skip


def _parameter(aws: Aws, arguments: Properties) -> Properties:
    decrypted = arguments.get("withDecryption", True)
    found = aws.call("ssm", "GetParameter", Name=arguments["name"], WithDecryption=decrypted)["Parameter"]
    return {"arn": found["ARN"], "id": found["Name"], "name": found["Name"], "type": found["Type"],
            "value": found["Value"], "insecureValue": found["Value"], "version": found["Version"],
            "region": aws.region, "withDecryption": decrypted}  # fmt: skip


INVOKES: dict[str, Callable[[Aws, Properties], Properties]] = {
    "aws:index/getCallerIdentity:getCallerIdentity": _caller_identity,
    "aws:index/getPartition:getPartition": _partition,
    "aws:ssm/getParameter:getParameter": _parameter,
}


def invoke(aws: Aws, token: str, arguments: Properties) -> Properties:
    if token not in INVOKES:
        raise AwsError(f"the AWS stand-in has no {token}")
    return INVOKES[token](aws, arguments)
