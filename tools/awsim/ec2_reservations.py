"""EC2's capacity reservations and capacity blocks, which moto lacks."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from xml.sax.saxutils import escape

from tools.awsim.ec2_placement import NAMESPACE
from tools.awsim.eks_state import ACCOUNT, Refused
from tools.awsim.wire import Answer, Call

Fields = dict[str, str]


class Reservations:
    """By region, then by id. A reservation with a later start is `scheduled`."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, Fields]] = {}
        self._offerings: dict[str, Fields] = {}

    def reset(self) -> None:
        self._found.clear()
        self._offerings.clear()

    def answer(self, call: Call) -> Answer | None:
        """The answer of a reservation's call; None for any other call."""
        performed: Callable[[Call], str] | None = {
            "CreateCapacityReservation": self._create, "DescribeCapacityReservations": self._describe,
            "CancelCapacityReservation": self._cancel, "DescribeCapacityBlockOfferings": self._offer,
            "PurchaseCapacityBlock": self._purchase,
        }.get(call.action)  # fmt: skip
        if performed is None:
            return None
        body = f'<{call.action}Response xmlns="{NAMESPACE}">{performed(call)}</{call.action}Response>'
        return Answer(200, {"Content-Type": "text/xml"}, body.encode())

    def _create(self, call: Call) -> str:
        given = call.parameters
        needed = ("InstanceType", "InstancePlatform", "AvailabilityZone", "InstanceCount")
        if lacks := [name for name in needed if not given.get(name)]:
            raise Refused("MissingParameter", f"The request must contain the parameter {lacks[0]}.")
        return f"<capacityReservation>{_xml(self._keep(call.region, given, 'default'))}</capacityReservation>"

    def _describe(self, call: Call) -> str:
        known = self._found.get(call.region, {})
        names = call.parameters.get("CapacityReservationId", sorted(known))
        unknown = [name for name in names if name not in known]
        if unknown:
            raise Refused(
                "InvalidCapacityReservationId.NotFound", f"The capacity reservation {unknown[0]} does not exist."
            )
        items = "".join(f"<item>{_xml(known[name])}</item>" for name in names)
        return f"<capacityReservationSet>{items}</capacityReservationSet>"

    def _cancel(self, call: Call) -> str:
        found = self._found.get(call.region, {}).get(str(call.parameters.get("CapacityReservationId")))
        if found is None:
            raise Refused("InvalidCapacityReservationId.NotFound", "The capacity reservation does not exist.")
        found["state"] = "cancelled"
        return "<return>true</return>"

    def _offer(self, call: Call) -> str:
        """One offering for what is asked, in the region's first zone, from the asked start or tomorrow on."""
        given = call.parameters
        start = given.get("StartDateRange") or _iso(datetime.now(UTC) + timedelta(days=1))
        hours = int(given.get("CapacityDurationHours", 24))
        offering = {
            "capacityBlockOfferingId": f"cb-{secrets.token_hex(8)}", "instanceType": str(given.get("InstanceType")),
            "instanceCount": str(given.get("InstanceCount", 1)), "availabilityZone": f"{call.region}a", "startDate": start,
            "endDate": _iso(_moment(start) + timedelta(hours=hours)), "capacityBlockDurationHours": str(hours),
        }  # fmt: skip
        self._offerings[offering["capacityBlockOfferingId"]] = offering
        fields = "".join(f"<{key}>{escape(value)}</{key}>" for key, value in offering.items())
        return f"<capacityBlockOfferingSet><item>{fields}</item></capacityBlockOfferingSet>"

    def _purchase(self, call: Call) -> str:
        offering = self._offerings.get(str(call.parameters.get("CapacityBlockOfferingId")))
        if offering is None:
            raise Refused("InvalidCapacityBlockOfferingId.NotFound", "The capacity block offering does not exist.")
        given = {
            "InstanceType": offering["instanceType"], "InstancePlatform": call.parameters.get("InstancePlatform"),
            "AvailabilityZone": offering["availabilityZone"], "InstanceCount": offering["instanceCount"],
            "StartDate": offering["startDate"], "EndDate": offering["endDate"],
        }  # fmt: skip
        return f"<capacityReservation>{_xml(self._keep(call.region, given, 'capacity-block'))}</capacityReservation>"

    def _keep(self, region: str, given: Mapping[str, Any], kind: str) -> Fields:
        name, start = f"cr-{secrets.token_hex(8)[:17]}", given.get("StartDate") or _iso(datetime.now(UTC))
        fields = {
            "capacityReservationId": name, "ownerId": ACCOUNT, "instanceType": given["InstanceType"],
            "capacityReservationArn": f"arn:aws:ec2:{region}:{ACCOUNT}:capacity-reservation/{name}",
            "instancePlatform": given["InstancePlatform"], "availabilityZone": given["AvailabilityZone"],
            "totalInstanceCount": str(given["InstanceCount"]), "availableInstanceCount": str(given["InstanceCount"]),
            "reservationType": kind, "startDate": start, "createDate": _iso(datetime.now(UTC)),
            "state": "scheduled" if _moment(start) > datetime.now(UTC) else "active",
        }  # fmt: skip
        optional = {"endDate": given.get("EndDate"), "placementGroupArn": given.get("PlacementGroupArn")}
        fields |= {key: str(value) for key, value in optional.items() if value}
        self._found.setdefault(region, {})[name] = fields
        return fields


def _xml(fields: Fields) -> str:
    return "".join(f"<{key}>{escape(str(value))}</{key}>" for key, value in fields.items())


def _iso(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
