"""What the name and the values of an attribute suggest: a time since 1970, a key, or a measurement to be averaged."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

#: times since 1970: the numbers from September 2001 to December 2099 have 10 digits or more in seconds
FIRST_SECOND, LAST_SECOND = 10**9, 4_102_444_800
SECONDS = "seconds"
#: unit of a time since 1970 -> units in a second
UNITS = {SECONDS: 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}

#: the words of a name: `lastSeen_at2` is last, seen, at and 2
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
#: words of a name that holds a time. Numbers of ten digits are seconds only below such a name: they may be keys, too
TIMES = frozenset(WORD.findall(
    "time timestamp ts date datetime dt epoch at when now utc t created updated modified changed deleted started "
    "start ended end begin since until expires expiry exp iat nbf seen contact reported received sent posted "
    "published observed measured sampled recorded captured clock instant moment unix"
))  # fmt: skip
TIME_ENDS = ("time", "timestamp", "date")
#: words of a name whose numbers name or place something: their average means nothing
KEYS = frozenset(WORD.findall(
    "id ids uid uuid guid gid pid tid oid key zip zipcode postal postcode port code codes version ver revision "
    "rev year month day hour minute weekday week nr num number seq sequence index idx offset partition hash crc "
    "checksum phone fax account acct icao mmsi imo serial sku isbn ean upc gtin asin ref status type kind class "
    "category flag flags zone channel route trip line block ssn iban bin mcc mnc imei imsi vin asn ip squawk lat "
    "lon lng latitude longitude user order customer device sensor station severity facility priority rank stage gate "
    "terminal node shard thread process errno"
))  # fmt: skip
#: ends of names in one word, such as userid; of them `bid`, `humid` and `paid` are not
KEY_ENDS = ("userid", "orderid", "deviceid", "sensorid", "stationid", "customerid", "productid", "sessionid", "zipcode")
#: words of a name whose numbers measure something
MEASURES = frozenset(WORD.findall(
    "price amount value temp temperature humidity pressure speed velocity size qty quantity volume count total "
    "duration latency elapsed bytes rate level power energy voltage volts current amps watts usage load cost fare "
    "tip distance weight height depth score mag magnitude altitude alt cpu memory mem co pm rssi snr battery wind "
    "rain aqi bid ask open close high low bpm heart steps rpm torque flow delay age income salary sales revenue "
    "balance rating"
))  # fmt: skip
#: keys: whole numbers that all differ, of at least this many records, and either grow or are at least MIN_KEY
MIN_RECORDS, MIN_KEY = 8, 10**6


def unit_of_time(name: str, values: Sequence[Any]) -> str | None:
    """The unit in which all of these numbers are times from 2001 to 2099; None if there is no such unit."""
    if not values:
        return None
    least, most = min(values), max(values)
    units = (unit for unit, count in UNITS.items() if FIRST_SECOND * count <= least and most < LAST_SECOND * count)
    unit = next(units, None)
    return None if unit == SECONDS and not is_name_of_time(name) else unit


def is_name_of_time(name: str) -> bool:
    return name.lower().endswith(TIME_ENDS) or not TIMES.isdisjoint(words(name))


def words(name: str) -> list[str]:
    return [word.lower() for word in WORD.findall(name)]


def measures(name: str) -> bool:
    return not MEASURES.isdisjoint(words(name)) and not _ends_as_key(name)


def is_key(name: str, values: Sequence[Any]) -> bool:
    """Whether the numbers name or place something rather than measure it. The last word of a name counts most."""
    if _ends_as_key(name) or measures(name):
        return not measures(name)
    differ = _all_differ(values) and (min(values) >= MIN_KEY or _grow(values))
    return differ or not KEYS.isdisjoint(words(name))


def _ends_as_key(name: str) -> bool:
    last = next((word for word in reversed(words(name)) if not word.isdigit()), "")
    return last in KEYS or name.lower().endswith(KEY_ENDS)


def _all_differ(values: Sequence[Any]) -> bool:
    whole = all(type(value) is int for value in values)
    return whole and len(values) >= MIN_RECORDS and len(set(values)) == len(values)


def _grow(values: Sequence[Any]) -> bool:
    return all(earlier < later for earlier, later in pairwise(values))
