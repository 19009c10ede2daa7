"""What instances cost an hour: a dated table, or AWS's own price list where credentials allow.

An unknown price is None and makes a sum unknown; it is never 0.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("prices.json")
PRICE_LIST_REGION = "us-east-1"
"""The price list API answers in a few regions only, for all of them."""


@dataclass(frozen=True)
class Price:
    """Dollars an hour, on demand, and where the figure is from."""

    usd_per_hour: float | None
    source: str


@functools.cache
def _table() -> dict[str, Any]:
    return json.loads(FILE.read_text())


def price(instance: str, region: str) -> Price:
    """From the table in the repository."""
    found = _table()["regions"].get(region, {}).get(instance)
    if found is None:
        return Price(None, f"unknown: the price table of {_table()['date']} has no {instance} in {region}")
    return Price(found, f"on demand, table of {_table()['date']}")


def eks_cluster_price() -> Price:
    entry = _table()["control_plane"]["eks_cluster"]
    return Price(entry["price"], entry["source"])


def listed_price(pricing: Any, instance: str, region: str) -> Price:
    """From AWS's price list (boto3's `pricing` client): Linux, shared tenancy, on demand.

    https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_pricing_GetProducts.html
    Raises botocore's ClientError.
    """
    wanted = {
        "instanceType": instance, "regionCode": region, "operatingSystem": "Linux", "tenancy": "Shared",
        "preInstalledSw": "NA", "capacitystatus": "Used",
    }  # fmt: skip
    filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()]
    answer = pricing.get_products(ServiceCode="AmazonEC2", Filters=filters)
    prices = {price for product in answer["PriceList"] for price in _on_demand(json.loads(product))}
    if len(prices) != 1:
        return Price(None, f"unknown: AWS's price list has {len(prices)} prices for {instance} in {region}")
    return Price(prices.pop(), "on demand, AWS's price list now")


def _on_demand(product: dict[str, Any]) -> Iterable[float]:
    for term in product.get("terms", {}).get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            usd = float(dimension["pricePerUnit"].get("USD", 0))
            if usd > 0:
                yield usd


def total(prices: Iterable[tuple[int, Price]]) -> float | None:
    """Dollars an hour of several instances of each price; None as soon as one of them is unknown."""
    sums = [None if price.usd_per_hour is None else count * price.usd_per_hour for count, price in prices if count]
    return None if any(part is None for part in sums) else sum(part for part in sums if part is not None)
