"""Cells as types: which of text, numbers, dates and booleans a column's texts are, and each of them read as that."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pyarrow as pa

from navi.columns.quantities import CONVENTIONS, FACTORS, KINDS, MONEY_FACTORS, parse_quantities, split_number
from navi.verbs.value_formats import DateFormat, learn_format, parse_date

CellType = Literal["text", "integer", "number", "date", "partial date", "datetime", "boolean"]
TYPES: tuple[CellType, ...] = get_args(CellType)
ARROW_TYPES = {
    "text": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "date": pa.date32(),
    "partial date": pa.string(),
    "datetime": pa.timestamp("us"),
    "boolean": pa.bool_(),
}
ENOUGH = 0.95
"""Share of a column's cells that must be of a type for the column to have it; the others are kept beside it."""
MAX_LEARNED = 2000
"""Different cells, the most frequent, that a type is learned from."""
MAX_UNITS, MAX_DIGITS = 12, 15
"""Different units that a column of numbers has at most, and digits of a number: more of either is no number."""
DURATION = "duration"
"""Format of cells such as `2h 10m`, which become minutes."""
MINUTES = "min"
TRUE, FALSE = frozenset(("yes", "y", "true", "t", "1", "1.0")), frozenset(("no", "n", "false", "f", "0", "0.0"))
LETTERS = ({"y", "n"}, {"t", "f"})
"""Letters that are yes and no where a column has both; one of them alone may be anything."""
CURRENCIES = {
    "$": "USD", "us$": "USD", "c$": "CAD", "a$": "AUD", "€": "EUR", "£": "GBP", "¥": "JPY", "₹": "INR", "₩": "KRW",
    "rs": "INR", "rs.": "INR", "dollar": "USD", "dollars": "USD", "euro": "EUR", "euros": "EUR", "pounds": "GBP",
    **{code.lower(): code for code in (
        "USD", "EUR", "GBP", "JPY", "INR", "CAD", "AUD", "CHF", "CNY", "SEK", "NOK", "DKK", "PLN", "CZK", "HUF", "BRL",
        "MXN", "KRW", "TRY", "TRL", "ZAR", "SGD", "HKD", "NZD", "RUB", "RUR", "UAH", "ILS", "AED", "SAR", "EGP", "NGN",
        "KES", "THB", "MYR", "IDR", "PHP", "VND", "TWD", "PKR", "BDT", "ARS", "CLP", "COP", "PEN", "RON", "BGN", "ISK",
        "DEM", "FRF", "ITL", "ESP",
    )},
}  # fmt: skip
"""Codes of currencies, by how cells write them."""
PARTS_OF_DATES = {"%Y": "%Y", "%Y-%m": "%Y-%m", "%m/%Y": "%Y-%m", "%b %Y": "%Y-%m", "%B %Y": "%Y-%m", "%b-%y": "%Y-%m"}
"""How a year alone, and a year with its month, may be written, and how ISO writes them."""
ORDINALS = frozenset(("st", "nd", "rd", "th"))
_DURATION_KIND = KINDS.index("duration")
_PADDED = re.compile(r"[-+]?0\d")
_UNIT = re.compile(r"[^\W\d_%°\"'″”²³µ/][\w%°²³µ/ ]{0,11}|[%°\"'″”]\w?")


@dataclass(frozen=True, kw_only=True)
class CellFormat:
    """What the cells of one column are, and how they are written."""

    type: CellType = "text"
    format: str = ""
    """Of dates, in the letters of `strftime`; of numbers, how 1234.5 is written, or `duration`."""
    currency: str = ""
    """Currency of the cells that name none, or only a sign such as `$`."""
    unit: str = ""
    """Unit of the cells that name none."""
    has_currency: bool = False
    """Whether cells name a currency, so that it has a column."""
    has_unit: bool = False
    """Whether cells name a unit, so that it has a column."""
    doubt: str = ""
    """What the cells leave open, and what was done; nothing where they are clear."""


@dataclass(frozen=True)
class Quantity:
    """A number, with its currency and unit where it has them."""

    number: float
    is_whole: bool
    currency: str = ""
    unit: str = ""


def name_convention(thousands: str, point: str) -> str:
    """Return how a convention writes 1234.5.

    >>> name_convention(".", ",")
    '1.234,5'
    """
    return f"1{thousands}234{point}5"


CONVENTION_NAMES = {name_convention(*each): each for each in CONVENTIONS}


def learn_cell_format(counts: Mapping[str, int]) -> CellFormat:
    """Return what nearly all of a column's cells are, given its different texts and how many cells have each.

    >>> learn_cell_format({"18-May-15": 1, "2-Jun-16": 3}).format, learn_cell_format({"$1,200": 1}).format
    ('%d-%b-%y', '1,234.5')
    """
    counts = dict(sorted(counts.items(), key=lambda each: -each[1])[:MAX_LEARNED])
    if not counts:
        return CellFormat()
    folded = {text.strip().lower() for text in counts}
    words = {text for text in folded if not text[:1].isdigit()}
    if words and folded <= TRUE | FALSE and (any(len(text) > 1 for text in words) or words in LETTERS):
        return CellFormat(type="boolean")
    return _learn_duration(counts) or _learn_date(counts) or _learn_number(counts) or CellFormat()


def _learn_duration(counts: Mapping[str, int]) -> CellFormat | None:
    durations = {text: found for text, found in _read_durations(list(counts)).items() if found is not None}
    # 10:30:00 alone may be a time of the day as well.
    spelled = any(re.search("[a-zA-Z]", text) for text in durations)
    if not spelled or not _are_enough({text: counts[text] for text in durations}, counts):
        return None
    whole = all(found.is_whole for found in durations.values())
    return CellFormat(type="integer" if whole else "number", format=DURATION, has_unit=True)


def _read_durations(texts: Sequence[str]) -> dict[str, Quantity | None]:
    """Return the minutes of each text that is a duration, None for the others."""
    kinds, numbers = parse_quantities(pa.array(texts, pa.string()))
    return {
        text: Quantity(minutes, is_whole=minutes.is_integer(), unit=MINUTES) if kind == _DURATION_KIND else None
        for text, kind, minutes in zip(texts, kinds.tolist(), numbers.tolist(), strict=True)
    }


def _learn_date(counts: Mapping[str, int]) -> CellFormat | None:
    partial = {text for text in counts if _read_partial_date(text) is not None}
    whole = {text: n for text, n in counts.items() if text not in partial}
    found = learn_format(list(whole)) if whole else None
    if not isinstance(found, DateFormat):
        return None
    parsed = {text: n for text, n in whole.items() if parse_date(text, found.pattern) is not None}
    both = {**parsed, **{text: counts[text] for text in partial}}
    # A year now and then among dates is part of one; dates now and then among years are something else.
    if not _are_enough(both, counts) or sum(parsed.values()) * 2 < sum(counts.values()):
        return None
    if found.ambiguous:
        example = next(iter(parsed))
        return CellFormat(doubt=f"which is the day and which the month of '{example}' is open, so it stays text")
    is_partial = not _are_enough(parsed, counts)
    type: CellType = "partial date" if is_partial else "datetime" if "%H" in found.pattern else "date"
    return CellFormat(type=type, format=found.pattern)


def _read_partial_date(text: str) -> str | None:
    """Return a year, or a year and a month, as ISO writes it."""
    if len(text) > 20 or not text[-1:].isdigit():
        return None
    for pattern, iso in PARTS_OF_DATES.items():
        if (date := parse_date(text, pattern)) is not None:
            return date.strftime(iso)
    return None


def _learn_number(counts: Mapping[str, int]) -> CellFormat | None:
    best: tuple[int, str, dict[str, Quantity]] = (0, "", {})
    for name in CONVENTION_NAMES:
        parsed = {text: found for text in counts if (found := read_quantity(text, name)) is not None}
        cells = sum(counts[text] for text in parsed)
        best = (cells, name, parsed) if cells > best[0] else best
    cells, name, parsed = best
    units = {found.unit for found in parsed.values()} - {""}
    is_name = len(units) > max(1, min(MAX_UNITS, len(parsed) // 2))
    # Leading zeros, and more digits than a number keeps, mean a code.
    is_code = any(_PADDED.match(text) or sum(map(str.isdigit, text)) > MAX_DIGITS for text in parsed)
    # So do 1.1 and 1.10 in one column: they would become one number.
    is_version = any(
        "." in (cut := text.rstrip("0")) and cut != text and not found.currency and cut in parsed
        for text, found in parsed.items()
    )
    if cells < ENOUGH * sum(counts.values()) or is_name or is_code or is_version:
        return None
    doubt = ""
    if len(parsed) > 1 and all(re.search(r"\d\.\d{3}(?!\d)", text) for text in parsed):
        doubt = f"'{next(iter(parsed))}' is read as decimals, not as thousands"
    return CellFormat(
        type="integer" if all(found.is_whole for found in parsed.values()) else "number",
        format=name,
        doubt=doubt,
        currency="USD" if any("$" in text for text in parsed) else "",
        has_currency=any(found.currency for found in parsed.values()),
        has_unit=bool(units),
    )


def _are_enough(some: Mapping[str, int], counts: Mapping[str, int]) -> bool:
    return bool(some) and sum(some.values()) >= ENOUGH * sum(counts.values())


def read_quantity(text: str, name: str) -> Quantity | None:
    """Return the number in a text, its currency and unit; None where there is more in it than these.

    >>> read_quantity("$3.5 million", "1,234.5"), read_quantity("118 min", "1234.5"), read_quantity("Rocky 2", "1234.5")
    (Quantity(number=3500000.0, is_whole=True, currency='USD', unit=''), Quantity(number=118.0, is_whole=True, currency='', unit='min'), None)
    """  # noqa: E501
    thousands, point = CONVENTION_NAMES[name]
    found = split_number(text.strip(), (thousands, point))
    if found is None or found["sign"] == "+":
        return None
    before, words = found["before"].strip().lower(), found["after"].strip().rstrip(".").split()
    currency = CURRENCIES.get(before, "")
    if before and not currency:
        return None
    if words and not currency and words[-1].lower() in CURRENCIES:
        currency = CURRENCIES[words.pop().lower()]
    factors = MONEY_FACTORS if currency else FACTORS
    factor = factors[words.pop(0).lower()] if words and words[0].lower() in factors else 1.0
    unit = " ".join(words)
    if unit and (unit.lower() in ORDINALS or not _UNIT.fullmatch(unit)):
        return None
    digits = f"{found['whole'].replace(thousands, '')}.{found['decimals'] or '0'}"
    number = float(digits) * factor * (-1.0 if found["sign"] else 1.0)
    is_whole = number.is_integer() and (factor > 1 or not found["decimals"])
    return Quantity(number, is_whole=is_whole, currency=currency, unit=unit)


def join_types(formats: Iterable[CellFormat], booleans: bool) -> CellType:
    """Return the one type of several columns: text, unless all of them fit one; `booleans`: numbers are 0 and 1."""
    found = {each.type for each in formats}
    if len(found) == 1:
        return found.pop()
    if found == {"integer", "number"}:
        return "number"
    if found == {"date", "datetime"}:
        return "datetime"
    if found == {"date", "partial date"}:
        return "partial date"
    return "boolean" if found == {"boolean", "integer"} and booleans else "text"


@dataclass(frozen=True, kw_only=True)
class ReadCells:
    """The cells of a column, read."""

    values: pa.Array
    """In the column's type; null where a cell is empty or not of it."""
    currencies: pa.Array
    units: pa.Array
    unread: np.typing.NDArray[np.bool_]
    """Which cells are there and not of the type."""


def read_cells(texts: pa.ChunkedArray, type: CellType, how: CellFormat) -> ReadCells:
    """Return a column's texts in a type; each different text is read once."""
    encoded = (
        texts.combine_chunks().dictionary_encode() if len(texts) else pa.array([], pa.string()).dictionary_encode()
    )
    distinct, places = encoded.dictionary.to_pylist(), encoded.indices
    if type == "text":
        read = [(text, "", "") for text in distinct]
    elif type in ("integer", "number"):
        found = (
            _read_durations(distinct)
            if how.format == DURATION
            else {text: read_quantity(text, how.format) for text in distinct}
        )
        read = [_finish_number(text, found[text], type, how) for text in distinct]
    elif type == "boolean":
        read = [(_read_boolean(text), "", "") for text in distinct]
    elif type == "partial date":
        dates = (parse_date(text, how.format) for text in distinct)
        isos = [f"{date:%Y-%m-%d}" if date else None for date in dates]
        read = [(iso or _read_partial_date(text), "", "") for iso, text in zip(isos, distinct, strict=True)]
    else:
        dates = (parse_date(text, how.format) for text in distinct)
        read = [(date.date() if date and type == "date" else date, "", "") for date in dates]
    values = pa.array([each[0] for each in read], ARROW_TYPES[type]).take(places)
    there = texts.is_valid().to_numpy(zero_copy_only=False).astype(np.bool_)
    return ReadCells(
        values=values,
        currencies=pa.array([each[1] or None for each in read], pa.string()).take(places),
        units=pa.array([each[2] or None for each in read], pa.string()).take(places),
        unread=there & values.is_null().to_numpy(zero_copy_only=False).astype(np.bool_),
    )


def _finish_number(
    text: str, found: Quantity | None, type: CellType, how: CellFormat
) -> tuple[float | int | None, str, str]:
    """Return a number, its currency and unit, as a column has them; None where it has no place for one of them."""
    if found is None or (type == "integer" and not found.number.is_integer()):
        return None, "", ""
    # A bare sign is what the column says it is.
    signed = how.currency and re.search(r"(?<![a-zA-Z])\$", text)
    currency = how.currency if signed or not found.currency else found.currency
    unit = found.unit or how.unit
    homeless = (currency != how.currency and not how.has_currency) or (
        unit != how.unit and not how.has_unit and how.format != DURATION
    )
    if homeless:
        return None, "", ""
    return int(found.number) if type == "integer" else found.number, currency, unit


def _read_boolean(text: str) -> bool | None:
    folded = text.strip().lower()
    return True if folded in TRUE else False if folded in FALSE else None


def check_format(type: str, how: str) -> str:
    """Return what is wrong with a format for a type; nothing where it will do."""
    if type in ("integer", "number") and how not in (DURATION, *CONVENTION_NAMES):
        return f"a number has one of the formats {', '.join(map(repr, (*CONVENTION_NAMES, DURATION)))}"
    if type in ("date", "partial date", "datetime"):
        try:
            shown = datetime.datetime(2021, 3, 30, 13, 5).strftime(how)
            if "%" in how and parse_date(shown, how) is not None:
                return ""
        except ValueError:
            pass
        return "a date has a format such as '%d.%m.%Y'"
    return ""
