"""Ask AWS what the repository's tables say: instance types and prices. Needs credentials."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Annotated

import boto3
import typer
from botocore.exceptions import BotoCoreError, ClientError

from components.hardware import catalogue
from components.hardware.ec2 import differences, merge_regions, read_instance_types
from components.hardware.instance import Instance
from components.hardware.prices import PRICE_LIST_REGION, Price, listed_price, price
from infra.commands.complain import complain

Regions = Annotated[list[str], typer.Option("--region", help="a region to ask; may be given several times")]


def instances(region: Regions, refresh: Annotated[bool, typer.Option(help="write what AWS says")] = False) -> None:
    """Where the instance catalogue and AWS differ; exit code 1 if they do. --refresh takes AWS's answer."""
    answers = {name: _asked(name) for name in region}
    known = catalogue.catalogue()
    found = [d for name, answer in answers.items() for d in differences(known, answer, name)]
    for difference in found:
        print(f"{difference.instance:<20} {difference.fact}: catalogue {difference.catalogue}, AWS {difference.aws}")
    print(f"{len(found)} difference(s) in {', '.join(region)}; {catalogue.dated()}")
    if refresh and found:
        _save(known, answers)
        print(f"written to {catalogue.FILE.name}")
    elif found:
        raise typer.Exit(1)


def prices(instance: Annotated[list[str], typer.Option(help="an instance type; may be given several times")],
           region: Annotated[str, typer.Option(help="the region to price in")],
           listed: Annotated[bool, typer.Option(help="ask AWS's price list")] = False) -> None:  # fmt: skip
    """What instances cost an hour: from the dated table, or from AWS's price list."""
    for name in instance:
        found = listed_price_of(name, region) if listed else price(name, region)
        amount = "unknown" if found.usd_per_hour is None else f"{found.usd_per_hour:.4f} USD an hour"
        print(f"{name:<20} {region:<16} {amount}  ({found.source})")


def _asked(region: str) -> dict[str, Instance]:
    try:
        return read_instance_types(boto3.client("ec2", region_name=region))
    except (BotoCoreError, ClientError) as error:
        complain(f"EC2 in {region} can't be asked: {error}")


def listed_price_of(instance: str, region: str) -> Price:
    """AWS's list price now; ends the command with one message where AWS can't be asked."""
    try:
        return listed_price(boto3.client("pricing", region_name=PRICE_LIST_REGION), instance, region)
    except (BotoCoreError, ClientError) as error:
        complain(f"AWS's price list can't be asked: {error}")


def _save(known: dict[str, Instance], answers: dict[str, dict[str, Instance]]) -> None:
    """What AWS says of the asked regions, and the catalogue's word for all others."""
    asked = set(answers)
    others = {
        name: replace(entry, regions=tuple(region for region in entry.regions if region not in asked))
        for name, entry in known.items()
    }
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    merged = merge_regions([others, *answers.values()])
    catalogue.save(merged, f"EC2 DescribeInstanceTypes, {', '.join(sorted(asked))}; the rest as before", today)
