"""What the cells of a column are, and how the column writes them; each read by its meaning."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from navi.columns.quantities import CONVENTIONS, FACTORS, KINDS, MONEY_FACTORS, parse_quantities, split_number

CellType = Literal["text", "integer", "number", "date", "partial date", "datetime", "boolean"]
ARROW_TYPES = {
    "text": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "date": pa.date32(),
    "partial date": pa.string(),
    "datetime": pa.timestamp("us"),
    "boolean": pa.bool_(),
}
NUMBER_TYPES, DATE_TYPES = ("integer", "number"), ("date", "partial date", "datetime")
ENOUGH = 0.95
"""Share of a column's cells that must be of a type for the column to have it; the others are kept beside it."""
MAX_LEARNED = 2000
"""Different cells, the most frequent, that a type is learned from."""
MAX_UNITS, MAX_DIGITS = 12, 15
"""Different words behind numbers that are no known units, and digits, at most: more of either is no number."""
MAX_INTEGER = 1 << 53
"""Integers beyond it are codes: a float does not keep their digits."""
DURATION, MINUTES = "duration", "min"
"""Format of cells such as `2h 10m`, and the unit that they are read in."""
WORDS = json.loads((Path(__file__).parent / "data" / "cell_words.json").read_text("utf-8"))
BOOLEANS = dict.fromkeys(WORDS["yes"], True) | dict.fromkeys(WORDS["no"], False)
PLAIN_BOOLEANS = frozenset(("yes", "no", "true", "false"))
"""Words that make a boolean column alone; of the others it takes a yes and a no: F may be anything."""
MISSING = frozenset(WORDS["missing"])
"""Words for a cell that is not known: they say nothing of a column's type."""
CURRENCIES = {**WORDS["currency_signs"], **{code.lower(): code for code in WORDS["currencies"]}}
"""Codes of currencies, by how cells write them."""
UNITS = frozenset(WORDS["units"])
"""Units that a header may end in, as in `loa_m`."""
BRACKETED_UNITS = UNITS.union(WORDS["bracketed_units"])
"""Units that a header may have in brackets, as in `runtime (min)`: elsewhere, these may be other words."""
COMPOUNDS = UNITS.union(CURRENCIES, WORDS["before_halves"])
"""Words behind which a unit is half of another, as `km` is in `co2_g_km`."""
ISO = "%Y-%m-%dT%H:%M:%S"
"""Stands for any date or time of ISO, so that cells of one column may differ in length; offsets are taken off."""
DATES = (
    "%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%Y%m%d", "%m/%d/%Y", "%d/%m/%Y", "%d-%m-%Y", "%m-%d-%Y", "%d.%m.%Y",
    "%m/%d/%y", "%d/%m/%y", "%d-%m-%y", "%m-%d-%y", "%d.%m.%y", "%B %d, %Y", "%b %d, %Y", "%B %d %Y", "%b %d %Y",
    "%d %B %Y", "%d %b %Y", "%d-%b-%Y", "%d-%b-%y", "%d-%B-%Y", "%b. %d, %Y", "%d %b, %Y", "%d %B, %Y",
    "%A, %B %d, %Y", "%a, %d %b %Y", ISO, "%m/%d/%Y %H:%M", "%d/%m/%Y %H:%M", "%d.%m.%Y %H:%M", "%m/%d/%Y %H:%M:%S",
    "%d/%m/%Y %H:%M:%S", "%d.%m.%Y %H:%M:%S", "%m/%d/%Y %I:%M %p",
)  # fmt: skip
"""Dates that are told apart, in the letters of `strftime`; of two that explain a column alike, the first is taken."""
PARTS_OF_DATES = {"%Y": "%Y", "%Y-%m": "%Y-%m", "%m/%Y": "%Y-%m", "%b %Y": "%Y-%m", "%B %Y": "%Y-%m", "%b-%y": "%Y-%m"}
"""How a year alone, and a year with its month, may be written, and how ISO writes them."""
_KNOWN_UNITS = frozenset(unit.rstrip("s") for unit in BRACKETED_UNITS.union(WORDS["cell_units"]))
ORDINALS = frozenset(("st", "nd", "rd", "th"))
_DURATION_KIND = KINDS.index("duration")
_PADDED = re.compile(r"[-+]?0\d")
_UNIT = re.compile(r"[^\W\d_%°\"'″”²³µ/][\w%°²³µ/ ]{0,11}|[%°\"'″”]\w?")
_LIKE_A_DATE = re.compile(r"(?=.*\d)[\w ,./:+\-]{6,35}")
_LIKE_ISO = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d.*)?")
_COMPACT_DATE = re.compile(r"(19|20)\d{6}")
_BRACKETS = re.compile(r"[(\[]\s*([^()\[\]]+?)\s*[)\]]")
_WORD_ENDS = re.compile(r"[\s_.:]+|(?<=[a-z])(?=[A-Z]{3}$)")


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
    decimal_sign: str = ""
    """Sign before decimals that the numbers prove; nothing where they can be read with either."""
    doubt: str = ""
    """What the cells leave open, and what was done; nothing where they are clear."""


@dataclass(frozen=True)
class Quantity:
    """A number, with its currency and unit where it has them."""

    number: float
    is_whole: bool
    currency: str = ""
    unit: str = ""


CONVENTION_NAMES = {f"1{thousands}234{point}5": (thousands, point) for thousands, point in CONVENTIONS}
"""The conventions by how they write 1234.5."""


def learn_cell_format(counts: Mapping[str, int], decimal_sign: str = "") -> CellFormat:
    """Return what nearly all of a column's cells are, given its different texts and how many cells have each.

    Numbers are read with the decimal sign, if one is given.

    >>> learn_cell_format({"18-May-15": 1, "2-Jun-16": 3}).format, learn_cell_format({"$1,200": 1}).format
    ('%d-%b-%y', '1,234.5')
    """
    counts = dict(sorted(counts.items(), key=lambda each: -each[1])[:MAX_LEARNED])
    folded = {text.strip().lower() for text in counts}
    words = {text for text in folded if not text[:1].isdigit()}
    if not counts:
        return CellFormat()
    if folded <= BOOLEANS.keys() and (words & PLAIN_BOOLEANS or len({BOOLEANS[text] for text in words}) == 2):
        return CellFormat(type="boolean")
    return _learn_duration(counts) or _learn_date(counts) or _learn_number(counts, decimal_sign) or CellFormat()


def _learn_duration(counts: Mapping[str, int]) -> CellFormat | None:
    texts = list(counts)
    durations = {text: each for text, each in zip(texts, _read_durations(texts), strict=True) if each is not None}
    # 10:30:00 alone may be a time of the day as well.
    spelled = any(re.search("[a-zA-Z]", text) for text in durations)
    if not spelled or not _are_enough(durations, counts):
        return None
    whole = all(found.is_whole for found in durations.values())
    return CellFormat(type="integer" if whole else "number", format=DURATION, has_unit=True)


def _read_durations(texts: Sequence[str]) -> list[Quantity | None]:
    """Return the minutes of each text that is a duration, None for the others."""
    kinds, numbers = parse_quantities(pa.array(texts, pa.string()))
    return [
        Quantity(minutes, is_whole=minutes.is_integer(), unit=MINUTES) if kind == _DURATION_KIND else None
        for kind, minutes in zip(kinds.tolist(), numbers.tolist(), strict=True)
    ]


def _learn_date(counts: Mapping[str, int]) -> CellFormat | None:
    partial = {text: None for text in counts if _read_partial_date(text) is not None}
    whole = [text for text in counts if text not in partial]
    found = _learn_pattern(whole)
    if found is None:
        return _learn_months(list(partial), counts)
    pattern, is_ambiguous = found
    dates = {text: date for text in whole if (date := parse_date(text, pattern)) is not None}
    # A year now and then among dates is part of one; dates now and then among years are something else.
    if not _are_enough([*dates, *partial], counts) or not _are_enough(dates, counts, 0.5):
        return None
    if is_ambiguous:
        example = next(iter(dates))
        return CellFormat(doubt=f"which is the day and which the month of '{example}' is open, so it stays text")
    is_partial = not _are_enough(dates, counts)
    type: CellType = "partial date" if is_partial else "datetime" if "%M" in pattern else "date"
    last = max(dates, key=lambda text: dates[text])
    is_future = "%y" in pattern and dates[last].year > datetime.datetime.now(datetime.UTC).year
    doubt = f"'{last}' is read as a date of {dates[last].year}" if is_future else ""
    return CellFormat(type=type, format=pattern, doubt=doubt)


def _learn_months(partial: Sequence[str], counts: Mapping[str, int]) -> CellFormat | None:
    """Return the format of a column of months; years alone are numbers."""
    forms = [form for form in PARTS_OF_DATES if any(parse_date(text, form) for text in partial)]
    if forms in ([], ["%Y"]) or not _are_enough(partial, counts):
        return None
    doubt = f"'{partial[0]}' is read as a month and its year" if forms == ["%b-%y"] else ""
    return CellFormat(type="partial date", format=forms[-1], doubt=doubt)


def _learn_pattern(texts: Sequence[str]) -> tuple[str, bool] | None:
    """Return how nearly all texts write a date, and whether day and month may as well be the other way round."""
    enough = ENOUGH * max(len(texts), 1)
    if sum(_LIKE_A_DATE.fullmatch(text) is not None for text in texts) < enough:
        return None
    possible = [pattern for pattern in DATES if any(parse_date(text, pattern) for text in texts[:10])]
    fits = {pattern: sum(parse_date(text, pattern) is not None for text in texts) for pattern in possible}
    best = max(possible, key=lambda pattern: fits[pattern], default="")
    swapped = best.translate(str.maketrans("md", "dm"))
    return (best, swapped != best and fits.get(swapped) == fits[best]) if fits.get(best, 0) >= enough else None


def _read_partial_date(text: str) -> str | None:
    """Return a year, or a year and a month, as ISO writes it."""
    if len(text) > 20 or not text[-1:].isdigit():
        return None
    for pattern, iso in PARTS_OF_DATES.items():
        if (date := parse_date(text, pattern)) is not None:
            return date.strftime(iso)
    return None


def parse_date(text: str, pattern: str) -> datetime.datetime | None:
    """Return the date in a text, None where it is not written so; one with an offset in UTC.

    Spaces before a comma do not count.

    >>> parse_date("2021-03-30 12:00:00.5+02:00", ISO)
    datetime.datetime(2021, 3, 30, 10, 0, 0, 500000)
    """
    text = re.sub(r"\s+,", ",", re.sub(r"\bSept\b", "Sep", text.strip()))
    if pattern == "%Y%m%d" and not _COMPACT_DATE.fullmatch(text):
        return None
    with suppress(ValueError, OverflowError):
        if pattern == ISO and _LIKE_ISO.fullmatch(text):
            found = datetime.datetime.fromisoformat(text)
            return found if found.tzinfo is None else found.astimezone(datetime.UTC).replace(tzinfo=None)
        return datetime.datetime.strptime(text, pattern)
    return None


def learn_cell_formats(columns: Mapping[str, Mapping[str, int]]) -> dict[str, CellFormat]:
    """Return what `learn_cell_format` says of the columns of one table, given by their headers.

    Numbers that can be read with either decimal sign are read with the one that the table's other columns prove.

    >>> learn_cell_formats({"km": {"35.453": 1}, "price": {"31.000,99": 1}})["km"].type
    'integer'
    """
    formats = {header: learn_cell_format(counts) for header, counts in columns.items()}
    proofs = {each.decimal_sign: header for header, each in formats.items() if each.decimal_sign}
    if len(proofs) != 1:
        return formats
    ((sign, proof),) = proofs.items()
    for header, found in formats.items():
        if found.type in NUMBER_TYPES and found.doubt:
            learned = learn_cell_format(columns[header], sign)
            reading = learned.doubt.partition(";")[0]
            formats[header] = replace(learned, doubt=f"{reading}, as '{proof}' has '{sign}' before decimals")
    return formats


def _learn_number(counts: Mapping[str, int], decimal_sign: str) -> CellFormat | None:
    fits = {name: sum(_split(text, name) is not None for text in counts) for name in CONVENTION_NAMES}
    signs = {name: sign for name, (_, sign) in CONVENTION_NAMES.items()}
    # Of conventions under which as many texts have one number, the first is taken.
    name = max((each for each in signs if decimal_sign in ("", signs[each])), key=fits.__getitem__)
    rival = max((each for each in signs if signs[each] != signs[name]), key=fits.__getitem__)
    parsed = {text: found for text in counts if (found := read_quantity(text, name)) is not None}
    units = {found.unit for found in parsed.values()} - {""}
    # Words that are no known units may be some if they are few, and single: 2 Seasons, but not 12 Main St.
    unknown = {_singular(unit) for unit in units} - _KNOWN_UNITS
    is_measure = len(unknown) <= max(1, min(MAX_UNITS, len(parsed) // 2)) and not any(" " in each for each in unknown)
    currencies = {found.currency for found in parsed.values()} - {""}
    # Leading zeros, and more digits than a number keeps, mean a code.
    is_code = any(_PADDED.match(text) or sum(map(str.isdigit, text)) > MAX_DIGITS for text in parsed)
    # So do 1.1 and 1.10 in one column: they would become one number.
    is_version = any(
        "." in (cut := text.rstrip("0")) and cut != text and not found.currency and cut in parsed
        for text, found in parsed.items()
    )
    # (1), (2) and so on count something; among other numbers, brackets are a minus.
    is_list = sum(text.startswith("(") for text in parsed) * 2 > len(parsed)
    if not _are_enough(parsed, counts) or not is_measure or is_code or is_version or is_list:
        return None
    is_proven, doubt = fits[name] > fits[rival], ""
    for text, found in () if is_proven else parsed.items():
        other = read_quantity(text, rival)
        if other is not None and other.number != found.number:
            change = f'format = "{rival}" in the specification reads it as {other.number:.15g}'
            doubt = f"'{text}' is read as {found.number:.15g}; {change}"
            break
    return CellFormat(
        type="integer" if all(found.is_whole for found in parsed.values()) else "number",
        format=name,
        decimal_sign=signs[name] if is_proven else "",
        doubt=doubt,
        currency="USD" if currencies == {"USD"} and any("$" in text for text in parsed) else "",
        has_currency=bool(currencies),
        has_unit=bool(units),
    )


def _singular(unit: str) -> str:
    return unit.lower().rstrip("s")


def _split(text: str, name: str) -> re.Match[str] | None:
    """Return the parts of a text with one number in it, or None.

    `($5)` and `-$5` are `$-5`; `1 200,-` has no decimals.
    """
    text = re.sub(r"^\(([^-−()]+)\)$", r"-\1", text.strip())
    text = re.sub(r"^([-−])([^\d+\-−]{1,8})(?=\d)", r"\2\1", text)
    found = split_number(re.sub(r"(?<=\d)[.,][-–—](?!\d)", "", text), CONVENTION_NAMES[name])
    # No number of thousands begins with a zero: 0,453 has decimals.
    return None if found and found["whole"][0] == "0" and not found["whole"].isdigit() else found


def _are_enough(some: Iterable[str], counts: Mapping[str, int], share: float = ENOUGH) -> bool:
    cells = sum(counts[text] for text in some)
    return cells > 0 and cells >= share * sum(counts.values())


def read_quantity(text: str, name: str) -> Quantity | None:
    """Return the number in a text, its currency and unit; None where there is more in it than these.

    >>> read_quantity("$3.5 million", "1,234.5"), read_quantity("118 min", "1234.5"), read_quantity("Rocky 2", "1234.5")
    (Quantity(number=3500000.0, is_whole=True, currency='USD', unit=''), Quantity(number=118.0, is_whole=True, currency='', unit='min'), None)
    """  # noqa: E501
    found = _split(text, name)
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
    digits = f"{found['whole'].replace(CONVENTION_NAMES[name][0], '')}.{found['decimals'] or '0'}"
    number = float(digits) * factor * (-1.0 if found["sign"] else 1.0)
    is_whole = number.is_integer() and (factor > 1 or found["decimals"] in (None, "0"))  # 2015.0 is a year
    return Quantity(number, is_whole=is_whole, currency=currency, unit=unit)


def read_header(header: str) -> tuple[str, str]:
    """Return the currency and the unit that a header names, at its end or in brackets; nothing where it names none.

    >>> read_header("price_eur"), read_header("LOA (ft)"), read_header("Built in")
    (('EUR', ''), ('', 'ft'), ('', ''))
    """
    bracketed = [each.lower() for each in _BRACKETS.findall(header)]
    words = _WORD_ENDS.split(_BRACKETS.sub("", header).strip())
    last = words[-1].lower() if len(words) > 1 or len(words[-1]) > 2 else ""
    # A header in pounds may be of weights.
    currency = next((CURRENCIES[each] for each in (*bracketed, last) if each in CURRENCIES and len(each) <= 3), "")
    before = words[-2].lower() if len(words) > 1 else ""
    is_whole = last in UNITS and before not in COMPOUNDS and "/" not in before
    return currency, next((each for each in bracketed if each in BRACKETED_UNITS), last if is_whole else "")


def drop_missing(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the texts of a column that say something, and how many cells have each."""
    return {text: count for text, count in counts.items() if text.strip().lower() not in MISSING}


def join_types(columns: Iterable[tuple[CellFormat, Mapping[str, int]]]) -> CellType:
    """Return the one type of several columns, each with its texts: text, unless all of them fit one."""
    filled = [(each.type, texts) for each, texts in columns if texts]
    found = {type for type, _ in filled}
    integers = [text for type, texts in filled for text in texts if type == "integer"]
    if len(found) == 1:
        return found.pop()
    if found == {"integer", "number"}:
        return "number"
    if found == {"date", "datetime"}:
        return "datetime"
    if found == {"boolean", "integer"} and {*integers} <= {"0", "1"}:
        return "boolean"
    is_years = all(re.fullmatch("(1[5-9]|20)[0-9]{2}", text) for text in integers)
    return "partial date" if found - {"integer"} and found <= {*DATE_TYPES, "integer"} and is_years else "text"


@dataclass(frozen=True, kw_only=True)
class ReadCells:
    """The cells of a column, read."""

    values: pa.Array
    """In the column's type; null where a cell is empty or not of it."""
    currencies: pa.Array
    units: pa.Array
    unread: np.typing.NDArray[np.bool_]
    """Which cells are there and not of the type."""


def read_cells(texts: pa.ChunkedArray, how: CellFormat) -> ReadCells:
    """Return a column's texts in its type; each different text is read once."""
    encoded = pa.concat_arrays([pa.array([], pa.string()), *texts.chunks]).dictionary_encode()
    distinct, places = encoded.dictionary.to_pylist(), encoded.indices
    if how.type in NUMBER_TYPES:
        if how.format == DURATION:
            # Among durations, 21m is no length.
            found = _read_durations([re.sub(r"^(\d+ ?m)$", r"0h \1", text) for text in distinct])
        else:
            found = [read_quantity(text, how.format) for text in distinct]
        read = [_place_number(text, each, how) for text, each in zip(distinct, found, strict=True)]
    else:
        read = [(_read_plain(text, how), "", "") for text in distinct]
    values, currencies, units = zip(*read, strict=True) if read else ((), (), ())
    value = pa.array(values, ARROW_TYPES[how.type]).take(places)
    return ReadCells(
        values=value,
        currencies=pa.array([each or None for each in currencies], pa.string()).take(places),
        units=pa.array([each or None for each in units], pa.string()).take(places),
        unread=np.asarray(places.is_valid()) & np.asarray(value.is_null()),
    )


def fits_format(texts: pa.ChunkedArray, how: CellFormat) -> np.typing.NDArray[np.bool_]:
    """Return which texts are of a column's type and written like its cells, with a currency or unit where these are.

    >>> fits_format(pa.chunked_array([["95 min", "95", "long"]]), learn_cell_format({"118 min": 2})).tolist()
    [True, False, False]
    """
    found = read_cells(texts, replace(how, currency=""))
    beside = np.asarray(found.currencies.is_valid()) == how.has_currency
    beside &= np.asarray(found.units.is_valid()) == how.has_unit
    fits: np.typing.NDArray[np.bool_] = beside & ~found.unread
    return fits


def _read_plain(text: str, how: CellFormat) -> Any:
    """Return a text, boolean or date, as its column has them; None for what is none."""
    if how.type == "text":
        return text
    if how.type == "boolean":
        return BOOLEANS.get(text.strip().lower())
    if how.type == "partial date" and (iso := _read_partial_date(text)) is not None:
        return iso
    date = parse_date(text, how.format)
    if how.type == "partial date":
        return date and (date.isoformat() if "%M" in how.format else f"{date:%Y-%m-%d}")
    return date.date() if date and how.type == "date" else date


def _place_number(text: str, found: Quantity | None, how: CellFormat) -> tuple[float | int | None, str, str]:
    """Return a number, its currency and unit, as a column has them; None where it has no place for one of them."""
    is_exact = found is not None and found.number.is_integer() and abs(found.number) <= MAX_INTEGER
    if found is None or (how.type == "integer" and not is_exact):
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
    return int(found.number) if how.type == "integer" else found.number, currency, unit


def check_format(type: str, how: str) -> str:
    """Return what is wrong with a format for a type; nothing where it will do."""
    if type in NUMBER_TYPES and how not in (DURATION, *CONVENTION_NAMES):
        return f"a number has one of the formats {', '.join(map(repr, (*CONVENTION_NAMES, DURATION)))}"
    if type in DATE_TYPES:
        try:
            shown = datetime.datetime(2021, 3, 30, 13, 5).strftime(how)
            if "%" in how and parse_date(shown, how) is not None:
                return ""
        except ValueError:
            pass
        return "a date has a format such as '%d.%m.%Y'"
    return ""
