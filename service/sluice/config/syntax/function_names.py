"""The functions of Flink SQL and ksqlDB, and what to write here: for messages and for docs/functions.md.

One line for each function: its names, `F` if Flink SQL has it, `K` if ksqlDB has it, and behind a colon an expression
of this project, or behind `none:` why there is none. A name with `=` is the same here, in small letters.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sluice.model.functions import AGGREGATES


class Elsewhere(NamedTuple):
    group: str
    names: tuple[str, ...]
    #: `F` for Flink SQL, `K` for ksqlDB
    systems: str
    #: the expression to write; empty if there is none
    here: str
    #: why there is no such expression; empty if there is one
    reason: str


TABLE = """
## Numbers
ABS, SQRT, EXP, SIGN, SIN, COS, TAN, ASIN, ACOS, ATAN, ATAN2, LOG10, LOG2, RADIANS, DEGREES, PI, FLOOR, CEIL FK: =
SINH, COSH, TANH FK: =
CEILING F: ceil(x)
LN FK: log(x)
LOG FK: log(x, base), whose base is the first argument there
POWER FK: pow(x, y)
CBRT K: cbrt(x)
COT FK: 1.0 / tan(x)
E F: exp(1.0)
ROUND FK: round(x, 2)
TRUNCATE, TRUNC FK: trunc(x * 100.0) / 100.0
MOD F: x % y
GREATEST FK: max(x, y)
LEAST FK: min(x, y)
BIN F: none: no notation with base 2
HEX F: hex(s)
UNHEX F: unhex(s)
CONV F: none: no notation with another base than 10; hex(s) is of bytes
BITNOT F: bitXor(i, -1)
RAND, RAND_INTEGER, RANDOM FK: none: outputs depend on records alone, so a restart computes the same
UUID FK: none: outputs depend on records alone; sha256(s) of a key is an identifier
GEO_DISTANCE K: haversine(latitude, longitude, latitude2, longitude2) / 1000.0
GENERATE_SERIES K: none: no list of numbers from one to another

## Texts
CHAR_LENGTH, CHARACTER_LENGTH F: length(s)
LEN K: length(s)
TRIM, REPLACE, SUBSTRING FK: =
UPPER, LOWER, LEFT, RIGHT, REPEAT, REVERSE F: =
UCASE K: upper(s)
LCASE K: lower(s)
LTRIM F: trimStart(s)
RTRIM F: trimEnd(s)
BTRIM F: trim(s)
SUBSTR F: substring(s, 0, 3), which counts from 0
LPAD FK: padStart(s, 10, " ")
RPAD FK: padEnd(s, 10, " ")
INITCAP FK: titleCase(s)
CONCAT FK: s + s2
CONCAT_WS FK: join([s, s2], "-")
OVERLAY F: left(s, 3) + s2 + substring(s, 5)
INSTR FK: indexOf(s, s2), which counts from 0
POSITION, LOCATE F: indexOf(s, s2), which counts from 0
STARTSWITH F: startsWith(s, s2)
ENDSWITH F: endsWith(s, s2)
LIKE F: contains(s, s2), startsWith(s, s2) or regexContains(s, "a.*b")
REGEXP, SIMILAR F: regexContains(s, "a.*b")
REGEXP_EXTRACT FK: regexExtract(s, "a(.*)b", 1)
REGEXP_REPLACE FK: regexReplace(s, "[0-9]", "x")
REGEXP_COUNT F: regexCount(s, "[0-9]")
REGEXP_SUBSTR F: regexExtract(s, "[0-9]+")
REGEXP_INSTR F: none: indexOf(s, s2) finds a text, not a regular expression
REGEXP_EXTRACT_ALL FK: regexExtractAll(s, "[0-9]+")
REGEXP_SPLIT_TO_ARRAY K: split(regexReplace(s, "[,;]", ","), ",")
SPLIT FK: split(s, ",")
SPLIT_INDEX, SPLIT_PART F: split(s, ",")[0]
SUBSTRING_INDEX: split(s, ",")[0], the part before the first separator
STR_TO_MAP, SPLIT_TO_MAP, KEYVALUE FK: splitToMap(s, ",", "=")
TRANSLATE F: replace(replace(s, "a", "x"), "b", "y")
ASCII, CHR FK: none: no function between characters and their numbers
ELT, FIELD FK: [s, s2][0], and indexOf([s, s2], s)
MASK, MASK_LEFT, MASK_RIGHT, MASK_KEEP_LEFT, MASK_KEEP_RIGHT K: regexReplace(s, "[0-9]", "n")
PRINTF F: none: string(x) and padStart(s, 8) make texts of numbers
IS_ALPHA F: regexContains(s, "^[A-Za-z]+$")
IS_DIGIT F: regexContains(s, "^[0-9]+$")
IS_DECIMAL F: hasValue(float64(s))
LEVENSHTEIN, SOUNDEX: none: no comparison of texts by likeness

## Bytes, hashes, URLs
ENCODE, DECODE, TO_BYTES, FROM_BYTES FK: bytes(s) and text(bytes(s)), as base64 and UTF-8; base64(s), hex(s)
TO_BASE64 F: base64(s)
FROM_BASE64 F: text(bytes(s))
MD5, SHA1, SHA256, SHA512 F: =
SHA2, SHA224, SHA384 F: sha256(s)
CRC32: crc32(s)
MURMUR_HASH F: crc32(s), or sha256(s)
INT_FROM_BYTES, BIGINT_FROM_BYTES, DOUBLE_FROM_BYTES K: none: numbers in bytes; the formats avro and protobuf read them
BYTES_LENGTH: size(unhex(s))
PARSE_URL F: urlPart(s, "host"), or urlParameter(s, "name")
URL_ENCODE, URL_ENCODE_PARAM FK: urlEncode(s)
URL_DECODE, URL_DECODE_PARAM FK: urlDecode(s)
URL_DECODE_RECURSIVE F: urlDecode(urlDecode(s))
URL_EXTRACT_HOST K: urlPart(s, "host")
URL_EXTRACT_PATH K: urlPart(s, "path")
URL_EXTRACT_PORT K: int64(urlPart(s, "port"))
URL_EXTRACT_PROTOCOL K: urlPart(s, "scheme")
URL_EXTRACT_QUERY K: urlPart(s, "query")
URL_EXTRACT_FRAGMENT K: urlPart(s, "fragment")
URL_EXTRACT_PARAMETER K: urlParameter(s, "name")

## Times
YEAR, QUARTER, MONTH, WEEK, HOUR, MINUTE, SECOND F: =
DAYOFMONTH F: day(t)
DAYOFWEEK, DAYOFYEAR F: dayOfWeek(t), where Monday is 1, and dayOfYear(t)
EXTRACT, DATE_PART F: year(t), quarter(t), month(t), day(t), hour(t)
DATE_TRUNC: startOf(t, "month")
TIMESTAMPADD, TIMEADD, DATEADD, DATE_ADD FK: t + 5m, or addTime(t, 1, "month")
TIMESTAMPSUB, TIMESUB, DATESUB, DATE_SUB K: t - 5m, or addTime(t, -1, "month")
TIMESTAMPDIFF, DATEDIFF, DATE_DIFF F: timeBetween(t, t2, "day"), or seconds with t2 - t
CONVERT_TZ FK: formatTime(t, "%Y-%m-%d %H:%M:%S", "Europe/Berlin")
DATE_FORMAT, FORMAT_TIMESTAMP, FORMAT_DATE, FORMAT_TIME, TIMESTAMPTOSTRING, DATETOSTRING FK: formatTime(t, "%Y-%m-%d")
DATE_FORMAT_TZ F: formatTime(t, "%Y-%m-%d", "Europe/Berlin")
TO_TIMESTAMP_TZ F: parseTime(s, "%d.%m.%Y", "Europe/Berlin")
PARSE_TIMESTAMP, PARSE_DATE, PARSE_TIME, STRINGTOTIMESTAMP, STRINGTODATE K: parseTime(s, "%d.%m.%Y")
TO_TIMESTAMP, TO_DATE F: timestamp(s), or parseTime(s, "%d.%m.%Y", "Europe/Berlin")
TO_TIMESTAMP_LTZ, FROM_UNIXTIME FK: fromMilliseconds(i), timestamp(i) for seconds
UNIX_TIMESTAMP, UNIX_DATE, FROM_DAYS FK: toMilliseconds(t), toSeconds(t), or timestamp(i * 86400)
CURRENT_ROW_TIMESTAMP F: none: outputs depend on records alone
NOW, CURRENT_TIMESTAMP, CURRENT_DATE, CURRENT_TIME, LOCALTIME, LOCALTIMESTAMP F: none: outputs depend on records alone
CURRENT_WATERMARK, SOURCE_WATERMARK F: none: an operator compares times with the watermark itself
OVERLAPS F: t < t2 and t > t2

## Null and conversions
COALESCE FK: =
IFNULL, NVL FK: x ?: 0
NULLIF FK: x == y ? null : x
IF, CASE FK: x > 5 ? "large" : "small"
CAST FK: int64(s), float64(s), string(x), timestamp(s), decimal(s, 2)
TRY_CAST F: try(int64(s))
TYPEOF F: none: types are known before the service runs; sluice explain shows them
AS_VALUE K: the attribute alone: a key is an attribute like others

## Lists and maps
CARDINALITY, ARRAY_LENGTH FK: size(xs)
ARRAY, MAP, ROW FK: [x, y], {"a": x, "b": y}, {a: x, b: y}
ELEMENT F: xs[0]
ARRAY_CONTAINS, ARRAYCONTAINS FK: contains(xs, x)
ARRAY_POSITION F: indexOf(xs, x), which counts from 0
ARRAY_JOIN FK: join(split(s, ","), "-")
ARRAY_DISTINCT FK: distinct(xs)
ARRAY_REMOVE FK: without(xs, x)
ARRAY_REVERSE F: reverse(xs)
ARRAY_SORT, SORT_ARRAY FK: sort(xs)
ARRAY_MAX FK: maxOf(xs)
ARRAY_MIN FK: minOf(xs)
ARRAY_SUM: sumOf(xs)
ARRAY_CONCAT FK: concatenate(xs, xs)
ARRAY_APPEND F: concatenate(xs, [x])
ARRAY_PREPEND F: concatenate([x], xs)
ARRAY_UNION FK: distinct(concatenate(xs, xs))
ARRAY_SLICE, SLICE FK: slice(xs, 0, 2)
ARRAY_EXCEPT FK: distinct(without(xs, xs))
ARRAY_INTERSECT FK: distinct(common(xs, xs))
MAP_KEYS FK: keys(m)
MAP_VALUES FK: values(m)
MAP_UNION FK: merge(m, m)
MAP_FROM_ARRAYS, MAP_FROM_ENTRIES, AS_MAP FK: none: splitToMap(s, ",", "=") and {"a": x} make maps
MAP_ENTRIES, ENTRIES FK: none: each of a map operator has the entries as tuples
OBJECT_OF, OBJECT_UPDATE F: {a: x, b: y}
TRANSFORM, REDUCE, FILTER K: none: no functions of its own; each of a map operator has the elements as tuples
EXPLODE, UNNEST, CUBE_EXPLODE FK: each of a map operator, whose tuples are the elements of the list

## JSON
JSON_VALUE, JSON_QUERY, EXTRACTJSONFIELD, GET_JSON_OBJECT, JSON_EXTRACT FK: jsonText(s, "a.b.0"), without the sign $
JSON_EXISTS F: isPresent(jsonText(s, "a.b"))
IS_JSON_STRING K: hasValue(json(s))
PARSE_JSON, TRY_PARSE_JSON, FROM_JSON F: json(s)
JSON_STRING, TO_JSON_STRING, JSON_OBJECT, JSON_ARRAY FK: {a: x, b: y}, which outputs write as JSON
JSON_ITEMS, JSON_ARRAY_CONTAINS, JSON_ARRAY_LENGTH, JSON_KEYS, JSON_RECORDS K: none: a list or a map in the schema
JSON_LENGTH F: none: size(xs) of a list or a map in the schema
JSON_CONCAT K: none: a struct or a map in the output has the members
JSON_QUOTE, JSON_UNQUOTE F: jsonText(s, "a") is without quotes

## Aggregation functions
SUM, AVG, MIN, MAX, COUNT FK: Sum(x), Average(x), Min(x), Max(x), Count()
COUNT_DISTINCT, APPROX_COUNT_DISTINCT FK: CountDistinct(x)
COLLECT, COLLECT_LIST, ARRAY_AGG FK: Collect(x)
COLLECT_SET FK: CollectDistinct(x)
LISTAGG, STRING_AGG F: join(Collect(s), ",")
FIRST_VALUE, EARLIEST_BY_OFFSET FK: First(x)
LAST_VALUE, LATEST_BY_OFFSET FK: Last(x)
ANY_VALUE F: Any(x)
NTH_VALUE F: Collect(x, 3)[2]
TOPK FK: MaxN(x, 3)
TOPKDISTINCT K: distinct(MaxN(x, 3)), of the three largest
HISTOGRAM K: CollectDistinct(x), with CountByDistinct(x) for the counts
STDDEV_SAMP, STDDEV FK: SampleStdDev(x)
STDDEV_POP F: PopulationStdDev(x)
VAR_SAMP, VARIANCE F: pow(SampleStdDev(x), 2.0)
VAR_POP F: pow(PopulationStdDev(x), 2.0)
PERCENTILE, PERCENTILE_CONT F: Percentile(x, 0.95)
PERCENTILE_DISC F: ApproxPercentile(x, 0.95), which is a value of the window within 0.4 %
CORRELATION K: (Average(x * y) - Average(x) * Average(y)) / (PopulationStdDev(x) * PopulationStdDev(y))
COVAR_POP F: Average(x * y) - Average(x) * Average(y)
COVAR_SAMP F: (Average(x * y) - Average(x) * Average(y)) * float64(Count()) / float64(Count() - 1)
SKEWNESS, KURTOSIS F: none: a class in Python with lift and combine
BOOL_AND, EVERY F: Min(int64(x > 5)) == 1
BOOL_OR F: Max(int64(x > 5)) == 1
BIT_AND, BIT_OR, BIT_XOR F: none: a class in Python with lift and combine
JSON_OBJECTAGG, JSON_ARRAYAGG F: Collect(x), which outputs write as JSON
GROUPING, GROUP_ID, GROUPING_ID F: none: no grouping sets; an aggregate for each of them
RANK, DENSE_RANK, ROW_NUMBER F: none: rank(), denseRank() and rowNumber() in the output of a sort
NTILE, PERCENT_RANK, CUME_DIST F: none: rank() in the output of a sort, with Count() of an aggregate
LAG F: none: previous(x) in the output of a map with partition_by
LEAD F: none: an aggregate over sliding, count(2): First(x) and Last(x)
"""


def rows() -> Iterator[Elsewhere]:
    """The rows of the table in their order."""
    group = ""
    for line in filter(None, TABLE.splitlines()):
        if line.startswith("## "):
            group = line.removeprefix("## ")
            continue
        before, _, equivalent = line.partition(": ")
        *names, last = before.split(", ")
        last, _, systems = last.partition(" ")
        lacking, _, reason = equivalent.partition(": ") if equivalent.startswith("none: ") else ("", "", "")
        yield Elsewhere(group, (*names, last), systems, "" if lacking else equivalent, reason)


#: name in small letters -> its row
BY_NAME = {
    name.lower(): row for row in rows() for name in row.names if row.here != "=" and name.capitalize() not in AGGREGATES
}


def function_elsewhere(name: str) -> str | None:
    """What to write in place of a function of another system; None if it is not known, or has the same name here."""
    row = BY_NAME.get(name.lower())
    if row is None:
        return None
    return f"{row.here}, in place of {name}" if row.here else f"an expression without {name}: {row.reason}"
