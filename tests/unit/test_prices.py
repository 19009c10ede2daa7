"""A price that isn't known is unknown, never nothing."""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from components.hardware.prices import Price, eks_cluster_price, listed_price, price, total


def test_the_table_has_the_examples_with_its_date() -> None:
    found = price("p5.48xlarge", "us-east-1")
    assert found.usd_per_hour and found.usd_per_hour > 1
    assert "table of 20" in found.source
    assert eks_cluster_price().usd_per_hour


@pytest.mark.parametrize(("instance", "region"), [("p5.48xlarge", "mars-1"), ("p9.48xlarge", "us-east-1")])
def test_a_missing_price_is_unknown_and_makes_the_sum_unknown(instance: str, region: str) -> None:
    missing = price(instance, region)
    assert missing.usd_per_hour is None and missing.source.startswith("unknown")
    assert total([(2, Price(1.0, "")), (1, missing)]) is None
    assert total([(2, Price(1.5, "")), (0, missing)]) == 3.0


def product(*usd: str) -> str:
    terms = {f"t{i}": {"priceDimensions": {"d": {"pricePerUnit": {"USD": amount}}}} for i, amount in enumerate(usd)}
    return json.dumps({"product": {}, "terms": {"OnDemand": terms}})


@pytest.mark.parametrize(
    ("products", "wanted"),
    [([product("55.04")], 55.04), ([product("0.0000000000", "55.04")], 55.04), ([], None),
     ([product("55.04"), product("60")], None)],
)  # fmt: skip
def test_aws_s_price_list_gives_one_price_or_none(products: list[str], wanted: Any) -> None:
    client = boto3.client("pricing", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
    with Stubber(client) as stub:
        stub.add_response("get_products", {"PriceList": products})
        found = listed_price(client, "p5.48xlarge", "us-east-1")
    assert found.usd_per_hour == wanted
    assert found.usd_per_hour is not None or "unknown" in found.source
