"""What the names of attributes suggest: the words of a name, and which of them name times, keys or measurements."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

#: times since 1970: the numbers from September 2001 to the end of 2039 have 10 digits in seconds
FIRST_SECOND, LAST_SECOND = 10**9, 2_208_988_800
#: unit of a time since 1970, as a schema names it -> units in a second
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
#: seconds: numbers below a name that names no time are times only if they are at most five years apart
MAX_SPAN = 5 * 366 * 86_400

#: the words of a name: `lastSeen_at2` is last, seen, at and 2
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
#: words of a name that holds a time. Numbers of ten digits are seconds only below such a name: they may be keys, too
TIMES = frozenset(WORD.findall(
    "time timestamp ts tst tstamp date datetime dt epoch at when now utc t created updated modified changed deleted "
    "started start ended end begin since until expires expiry exp iat nbf seen contact reported received sent posted "
    "published observed measured sampled recorded captured clock instant moment unix nano msec"
))  # fmt: skip
TIME_ENDS = ("time", "timestamp", "date")
#: words of a name whose numbers name or place something: their average means nothing
KEYS = frozenset(WORD.findall(
    "id ids uid uuid guid gid pid tid oid xid key zip zipcode postal postcode port code codes version ver revision "
    "rev year month day hour minute weekday week nr num number seq sequence index idx offset partition hash crc "
    "checksum phone fax account acct icao mmsi imo serial sku isbn ean upc gtin asin ref status type kind class "
    "category flag flags zone channel route trip line block ssn iban bin mcc mnc imei imsi vin asn ip squawk lat "
    "lon lng latitude longitude user order customer device sensor station severity facility priority rank stage gate "
    "attempt attempts quality terminal node shard thread process errno level lsn pos row server timezone ordinal "
    "second namespace time identity addr rack slot bay"
))  # fmt: skip
#: ends of names in one word, such as userid; of them `bid`, `humid` and `paid` are not
KEY_ENDS = (
    "userid",
    "orderid",
    "deviceid",
    "sensorid",
    "stationid",
    "customerid",
    "productid",
    "sessionid",
    "sessionidx",
    "zipcode",
)
#: words of a name whose numbers measure something
MEASURES = frozenset(WORD.findall(
    "price amount value values temp temperature humidity pressure speed velocity size qty quantity volume count total "
    "duration latency elapsed bytes rate power energy voltage volts current amps watts usage load cost fare tip "
    "distance weight height depth score mag magnitude altitude alt cpu memory mem co pm rssi snr battery wind rain "
    "aqi bid ask open close high low bpm heart steps rpm torque flow delay age income salary sales revenue balance "
    "rating segments length kwh gas spent fee tax int double"
))  # fmt: skip
#: words of a name in front of what is counted: `num_bikes`, `countOfItems`
COUNTS = frozenset(("num", "number", "count", "n", "total"))
#: last words of a name whose texts are no numbers, though they look like some: `1.0`, `007`
TEXTS = frozenset(WORD.findall(
    "version ver release revision rev id ids code zip zipcode phone ip status state type name key firmware build model "
    "jsonrpc"
))  # fmt: skip
#: words of the names of things that have many records: a window of its own for each of them makes sense
THINGS = frozenset(WORD.findall(
    "symbol sym s ticker instrument pair product market sensor device station machine meter plug vehicle bus car ship "
    "host hostname node instance user customer account client tenant shop store branch merchant city region country "
    "service app entity room zone token mmsi hex wiki net venue tag id key source src dev player camera sku article "
    "item repository repo project job queue charger turbine inverter pump robot truck patient merchant driver courier "
    "asset slave"
))  # fmt: skip
#: things that often have a number: `project: 7`. Whole numbers below others, such as `car: 7`, may count them
NUMBERED = frozenset(WORD.findall(
    "project tenant shop store branch merchant client machine meter product article item asset app service instance "
    "host repository repo region city room camera player venue market job slave"
))  # fmt: skip
#: names of the time at which something happened, without signs between their words
EVENT_TIMES = frozenset(WORD.findall(
    "timestamp time ts tsms tsus tsns eventtime eventtimestamp t tst dt at when created createdat timeunixnano "
    "occurredat happenedat occurred now obstime observationtime measuredat measuretime recordedat capturedat sampledat "
    "loggedat eventdatetime eventdate effectivedatetime observed observedat dateobserved"
))  # fmt: skip
#: words of the names of other times: what was done with the record, or when something else is due
OTHER_TIMES = frozenset(WORD.findall(
    "updated modified received sent processed expires expiry exp deleted ended end until observed etl creation birth "
    "sunrise sunset ingest ingested ingestion stored indexed synced receipt loaded exported"
))  # fmt: skip
#: of these names those of the creation of a thing, which may be earlier than the event
CREATIONS = frozenset(("created", "createdat"))
#: names of what a record measures, without signs between their words: numbers of different ones have no average
METRICS = frozenset(("metric", "metricname", "measurement", "measurementname", "property", "propertyid"))
#: names of numbers that do not say what is measured, and of texts that then say it
VALUES = frozenset(("value", "values", "val", "v", "data", "reading"))
BESIDE_VALUES = frozenset(("name", "event", "type", "kind", "parameter", "variable", "quantity", "tag"))
#: names that say too little without the name of the object around them
GENERAL = frozenset(WORD.findall(
    "id name type value values key code status date time text title number count total version state kind data x y new "
    "old main description email unit label size"
))  # fmt: skip
#: members in which the value of a union (Avro's JSON encoding), of a document (MongoDB's extended JSON) or of an
#: attribute (OpenTelemetry) stands by its type: the name is that of the member around it
BRANCHES = frozenset((
    "double", "float", "long", "int", "string", "boolean", "stringValue", "boolValue", "$oid", "$date", "$numberInt",
    "$numberLong", "$numberDouble", "$numberDecimal",
))  # fmt: skip
#: further such members, which stay in the name of the attribute, as a text may stand beside a number
NUMBER_BRANCHES = frozenset(("intValue", "doubleValue", "int_value", "double_value"))
#: objects of a record that say what was, or guard the others: their members are second to those of the same name
ASIDE = frozenset(("before", "old", "previous", "prev", "signature"))
#: words in front of `time` if it is a duration
DURATIONS = frozenset(WORD.findall(
    "response request processing process elapsed wait waiting run running load exec execution upstream total query "
    "render travel trip flight up down idle busy cpu lead cycle"
))  # fmt: skip
#: keys: whole numbers that all differ, of at least this many records, and either grow or are at least MIN_KEY
MIN_RECORDS, MIN_KEY = 8, 10**6


def words(name: str) -> list[str]:
    return [word.lower() for word in WORD.findall(name)]


def unit_of_time(name: str, values: Sequence[Any]) -> str:
    """The unit in which all of these numbers are times from 2001 to 2039; empty if there is no such unit."""
    if not values:
        return ""
    least, most = min(values), max(values)
    units = (unit for unit, count in UNITS.items() if FIRST_SECOND * count <= least and most < LAST_SECOND * count)
    unit = next(units, "")
    if not unit or is_name_of_time(name):
        return unit
    near = most - least <= MAX_SPAN * UNITS[unit]
    return unit if unit in ("ms", "us") and near and not _ends_as_key(name) else ""


def is_name_of_time(name: str) -> bool:
    return name.lower().endswith(TIME_ENDS) or not TIMES.isdisjoint(words(name))


def is_name_of_text(name: str) -> bool:
    """Whether texts below the name are no numbers, though they may look like some."""
    last = words(name)[-1:]
    return not TEXTS.isdisjoint(last) or name.lower().endswith(("version", *KEY_ENDS))


def measures(name: str) -> bool:
    """Whether numbers below the name measure or count something; numbers of a `time` that is none are durations."""
    listed = words(name)
    if listed[-1:] == ["time"]:
        return not DURATIONS.isdisjoint(listed)
    counts = len(listed) > 1 and listed[0] in COUNTS and listed[1] not in KEYS
    return counts or (not MEASURES.isdisjoint(listed) and not _ends_as_key(name))


def is_key(name: str, values: Sequence[Any]) -> bool:
    """Whether the numbers name or place something rather than measure it. The last word of a name counts most."""
    if measures(name) or _ends_as_key(name):
        return not measures(name)
    differ = _all_differ(values) and (min(values) >= MIN_KEY or _grow(values))
    return differ or not KEYS.isdisjoint(words(name)) or _numbers_things(name, values)


def names_thing(name: str) -> bool:
    return not THINGS.isdisjoint(words(name))


def _ends_as_key(name: str) -> bool:
    last = next((word for word in reversed(words(name)) if not word.isdigit()), "")
    return last in KEYS or name.lower().endswith(KEY_ENDS)


def _numbers_things(name: str, values: Sequence[Any]) -> bool:
    """Whether these are the numbers of things, such as `project: 7`."""
    return bool(values) and _whole(values) and not NUMBERED.isdisjoint(words(name)[-1:])


def _all_differ(values: Sequence[Any]) -> bool:
    return _whole(values) and len(values) >= MIN_RECORDS and len(set(values)) == len(values)


def _whole(values: Sequence[Any]) -> bool:
    return all(type(value) is int for value in values)


def _grow(values: Sequence[Any]) -> bool:
    return all(earlier < later for earlier, later in pairwise(values))
