"""Texts as quantities: plain numbers, money, percentages, durations, dates and measures, each on one scale."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

# Shape suffixes: N texts.

KINDS = ("number", "money", "percent", "duration", "date", "measure")
"""What a quantity may be; money counts in its currency, durations in minutes, dates in years."""
NOT_A_QUANTITY = -1
_NUMBER, _MONEY, _PERCENT, _DURATION, _DATE, _MEASURE = range(len(KINDS))

Floats = NDArray[np.float64]
Kinds = NDArray[np.int8]

_DIGITS = r"(?P<digits>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)"
_FACTORS = {"thousand": 1e3, "k": 1e3, "million": 1e6, "mn": 1e6, "m": 1e6, "billion": 1e9, "bn": 1e9, "b": 1e9}
_FACTOR = rf"(?P<factor>{'|'.join(_FACTORS)})?"
_CURRENCY = r"(?:us\$|c\$|a\$|[$€£¥₹₩]|usd|eur|gbp|inr|cad|aud|jpy|rs\.?)"
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = rf"(?P<month>{'|'.join(_MONTHS)})[a-z]*\.?"
_TIME = r"(?:[t ].*)?"


def parse_quantities(texts: pa.Array) -> tuple[Kinds, Floats]:
    """Return the kind of each text, NOT_A_QUANTITY for words, and its number, NaN for words: (N,) and (N,).

    >>> kinds, numbers = parse_quantities(pa.array(["1,200", "$3.5 million", "2h 10m", "2001-07-01", "Alien"]))
    >>> [KINDS[kind] for kind in kinds[:4]], numbers[:4].round(1).tolist()
    (['number', 'money', 'duration', 'date'], [1200.0, 3500000.0, 130.0, 2001.5])
    """
    lowered = pc.utf8_lower(pc.utf8_trim_whitespace(texts))
    kinds = np.full(len(texts), NOT_A_QUANTITY, dtype=np.int8)
    numbers = np.full(len(texts), np.nan)
    for kind, pattern, read in _PATTERNS:
        left = np.flatnonzero(kinds == NOT_A_QUANTITY)
        groups = pc.extract_regex(lowered.take(pa.array(left)), f"^{pattern}$")
        found = np.flatnonzero(pc.is_valid(groups).to_numpy(zero_copy_only=False))
        if len(found):
            parts = groups.take(pa.array(found))
            kinds[left[found]] = kind
            numbers[left[found]] = read(parts)
    return kinds, numbers


def _read_floats(parts: pa.StructArray, name: str) -> Floats:
    """Return a group's numbers; a group that is not there reads 0."""
    text = pc.replace_substring(parts.field(name), ",", "")
    text = pc.if_else(pc.equal(text, ""), "0", text)
    floats: Floats = pc.cast(text, pa.float64()).to_numpy(zero_copy_only=False)
    return floats


def _read_signed(parts: pa.StructArray) -> Floats:
    negative = pc.is_in(parts.field("sign"), pa.array(["-", "−"])).to_numpy(zero_copy_only=False)
    signs: Floats = np.where(negative, -1.0, 1.0)
    return signs * _read_floats(parts, "digits")


def _read_scaled(parts: pa.StructArray) -> Floats:
    factors = np.array([_FACTORS.get(factor, 1.0) for factor in parts.field("factor").to_pylist()])
    scaled: Floats = _read_signed(parts) * factors
    return scaled


def _read_clock(parts: pa.StructArray) -> Floats:
    hours, minutes, seconds = (_read_floats(parts, name) for name in ("hours", "minutes", "seconds"))
    return hours * 60 + minutes + seconds / 60


def _read_date(parts: pa.StructArray) -> Floats:
    return _read_years(parts) + np.clip((_read_floats(parts, "month") - 1) / 12, 0, 1)


def _read_named_date(parts: pa.StructArray) -> Floats:
    months = np.array([_MONTHS.index(month) for month in parts.field("month").to_pylist()])
    return _read_years(parts) + months / 12


def _read_years(parts: pa.StructArray) -> Floats:
    """Return the years; those of two digits lie between 1930 and 2029."""
    years = _read_floats(parts, "year")
    century: Floats = np.where(years < 30, 2000.0, np.where(years < 100, 1900.0, 0.0))
    return years + century


_SIGN = r"(?P<sign>[-−+]?)"
_MINUTES = r"(?P<minutes>\d+) ?m(?:in(?:ute)?s?)?\.?"
_SECONDS = r"(?:,? ?(?P<seconds>\d+) ?s(?:ec(?:ond)?s?)?\.?)?"
_YEAR = r"(?P<year>\d{4}|\d{2})"
_WEEKDAY = r"(?:[a-z]{3,9},? )?"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_PATTERNS: tuple[tuple[int, str, Callable[[pa.StructArray], Floats]], ...] = (
    (_NUMBER, rf"\(?{_SIGN}{_DIGITS}\)?", _read_signed),
    (_NUMBER, rf"{_SIGN}{_DIGITS}(?: ?/ ?| out of )(?:5|10|100)", _read_signed),
    (_PERCENT, rf"{_SIGN}{_DIGITS} ?(?:%|percent)", _read_signed),
    (_MONEY, rf"{_SIGN}{_CURRENCY} ?{_DIGITS} ?{_FACTOR}", _read_scaled),
    (_MONEY, rf"{_SIGN}{_DIGITS} ?{_FACTOR} ?(?:{_CURRENCY}|dollars?|euros?|pounds?|rupees?)", _read_scaled),
    (_DURATION, rf"(?:pt)?(?P<hours>\d+) ?h(?:ou)?r?s?\.?(?:,? ?{_MINUTES})?{_SECONDS}", _read_clock),
    (_DURATION, r"(?P<hours>\d+) ?h(?:ou)?r?s? (?P<minutes>\d+)(?P<seconds>)", _read_clock),
    (_DURATION, rf"pt(?P<hours>){_MINUTES}{_SECONDS}", _read_clock),
    (_DURATION, rf"(?P<hours>)(?P<minutes>\d+) ?min(?:ute)?s?\.?{_SECONDS}", _read_clock),
    (_DURATION, r"(?P<hours>\d{1,2}):(?P<minutes>\d{2}):(?P<seconds>\d{2})", _read_clock),
    (_NUMBER, rf"{_SIGN}{_DIGITS} ?(?P<factor>{'|'.join(_FACTORS)})", _read_scaled),
    (_DATE, rf"(?P<year>\d{{4}})[-/.](?P<month>\d{{1,2}})(?:[-/.]\d{{1,2}})?{_TIME}", _read_date),
    (_DATE, rf"(?P<month>\d{{1,2}})[-/.]\d{{1,2}}[-/.]{_YEAR}{_TIME}", _read_date),
    (_DATE, rf"{_WEEKDAY}{_MONTH} (?:{_DAY},? )?(?P<year>\d{{4}})(?: .*)?", _read_named_date),
    (_DATE, rf"{_WEEKDAY}{_DAY}[- ]{_MONTH}[- ,]+{_YEAR}(?: .*)?", _read_named_date),
    (_MEASURE, rf"{_SIGN}{_DIGITS} ?-?[a-zµ°\"'″”²³/]{{1,12}}\.?(?: [a-z]{{1,10}})?", _read_signed),
)
