"""Numbers in texts: whole arrays as quantities on one scale, and single texts by how a column writes its numbers."""

from __future__ import annotations

import re

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


CONVENTIONS = (
    ("", "."), (",", "."), (".", ","), ("", ","), (" ", ","), (" ", "."), ("\u00a0", ","), ("\u00a0", "."),
    ("\u202f", ","), ("\u202f", "."), ("'", "."), ("'", ","),
)  # fmt: skip
"""What stands between thousands, and before decimals; of two that explain a column alike, the first is taken."""
FACTORS = {"thousand": 1e3, "k": 1e3, "million": 1e6, "mn": 1e6, "mio": 1e6, "billion": 1e9, "bn": 1e9}
MONEY_FACTORS = {**FACTORS, "m": 1e6, "b": 1e9}
"""What a word after a number multiplies it by; a metre is no million, unless it costs something."""


def _write_pattern(thousands: str, point: str) -> str:
    """Return the pattern of a number without its sign: the groups `whole` and `decimals`, and what stands between."""
    whole = rf"\d+|\d{{1,3}}(?:{re.escape(thousands)}\d{{3}})+"
    return rf"(?P<whole>{whole})(?:{re.escape(point)}(?P<decimals>\d+))?"


_NUMBERS = {
    each: re.compile(rf"(?P<before>[^\d+\-−]{{0,8}}?)(?P<sign>[+\-−]?){_write_pattern(*each)}(?P<after>\D{{0,20}})")
    for each in CONVENTIONS
}


def split_number(text: str, convention: tuple[str, str]) -> re.Match[str] | None:
    """Return the parts of a text with one number in it: before, sign, whole, decimals, after; None for other texts.

    >>> split_number("$1,200.50 net", (",", ".")).groupdict()
    {'before': '$', 'sign': '', 'whole': '1,200', 'decimals': '50', 'after': ' net'}
    """
    return _NUMBERS[convention].fullmatch(text)


_DIGITS = rf"(?P<digits>{_write_pattern(',', '.')}|\.\d+)"
_FACTOR = rf"(?P<factor>{'|'.join(MONEY_FACTORS)})?"
_CURRENCY = r"(?:us\$|c\$|a\$|[$€£¥₹₩]|usd|eur|gbp|inr|cad|aud|jpy|rs\.?)"
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = rf"(?P<month>{'|'.join(_MONTHS)})[a-z]*\.?"
_TIME = r"(?:[t ].*)?"
_SIGN = r"(?P<sign>[-−+]?)"
_MINUTES = r"(?P<minutes>\d+) ?m(?:in(?:ute)?s?)?\.?"
_SECONDS = r"(?:,? ?(?P<seconds>\d+) ?s(?:ec(?:ond)?s?)?\.?)?"
_YEAR = r"(?P<year>\d{4}|\d{2})"
_WEEKDAY = r"(?:[a-z]{3,9},? )?"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_PATTERNS = (
    (_NUMBER, rf"\(?{_SIGN}{_DIGITS}\)?"),
    (_NUMBER, rf"{_SIGN}{_DIGITS}(?: ?/ ?| out of )(?:5|10|100)"),
    (_PERCENT, rf"{_SIGN}{_DIGITS} ?(?:%|percent)"),
    (_MONEY, rf"{_SIGN}{_CURRENCY} ?{_DIGITS} ?{_FACTOR}"),
    (_MONEY, rf"{_SIGN}{_DIGITS} ?{_FACTOR} ?(?:{_CURRENCY}|dollars?|euros?|pounds?|rupees?)"),
    (_DURATION, rf"(?:pt)?(?P<hours>\d+) ?h(?:ou)?r?s?\.?(?:,? ?{_MINUTES})?{_SECONDS}"),
    (_DURATION, r"(?P<hours>\d+) ?h(?:ou)?r?s? (?P<minutes>\d+)"),
    (_DURATION, rf"pt{_MINUTES}{_SECONDS}"),
    (_DURATION, rf"(?P<minutes>\d+) ?min(?:ute)?s?\.?{_SECONDS}"),
    (_DURATION, r"(?P<hours>\d{1,2}):(?P<minutes>\d{2}):(?P<seconds>\d{2})"),
    (_NUMBER, rf"{_SIGN}{_DIGITS} ?(?P<factor>{'|'.join(MONEY_FACTORS)})"),
    (_DATE, rf"(?P<year>\d{{4}})[-/.](?P<month>\d{{1,2}})(?:[-/.]\d{{1,2}})?{_TIME}"),
    (_DATE, rf"(?P<month>\d{{1,2}})[-/.]\d{{1,2}}[-/.]{_YEAR}{_TIME}"),
    (_DATE, rf"{_WEEKDAY}{_MONTH} (?:{_DAY},? )?(?P<year>\d{{4}})(?: .*)?"),
    (_DATE, rf"{_WEEKDAY}{_DAY}[- ]{_MONTH}[- ,]+{_YEAR}(?: .*)?"),
    (_MEASURE, rf"{_SIGN}{_DIGITS} ?-?[a-zµ°\"'″”²³/]{{1,12}}\.?(?: [a-z]{{1,10}})?"),
)


def parse_quantities(texts: pa.Array) -> tuple[Kinds, Floats]:
    """Return the kind of each text, NOT_A_QUANTITY for words, and its number, NaN for words: (N,) and (N,).

    >>> kinds, numbers = parse_quantities(pa.array(["1,200", "$3.5 million", "2h 10m", "2001-07-01", "Alien"]))
    >>> [KINDS[kind] for kind in kinds[:4]], numbers[:4].round(1).tolist()
    (['number', 'money', 'duration', 'date'], [1200.0, 3500000.0, 130.0, 2001.5])
    """
    lowered = pc.utf8_lower(pc.utf8_trim_whitespace(texts))
    kinds = np.full(len(texts), NOT_A_QUANTITY, dtype=np.int8)
    numbers = np.full(len(texts), np.nan)
    for kind, pattern in _PATTERNS:
        left = np.flatnonzero(kinds == NOT_A_QUANTITY)
        groups = pc.extract_regex(lowered.take(pa.array(left)), f"^{pattern}$")
        found = np.flatnonzero(pc.is_valid(groups).to_numpy(zero_copy_only=False))
        if len(found):
            kinds[left[found]] = kind
            numbers[left[found]] = _read(groups.take(pa.array(found)))
    return kinds, numbers


def _read(parts: pa.StructArray) -> Floats:
    """Return the numbers that the groups of a pattern stand for: a date, a duration, or a number with its factor."""
    names = {each.name for each in parts.type}
    if "year" in names:
        years = _read_floats(parts, "year")
        century = np.where(years < 30, 2000.0, np.where(years < 100, 1900.0, 0.0))
        return years + century + np.clip((_read_floats(parts, "month") - 1) / 12, 0, 1)
    if "minutes" in names:
        hours, minutes, seconds = (_read_floats(parts, name) for name in ("hours", "minutes", "seconds"))
        return hours * 60 + minutes + seconds / 60
    negative = pc.is_in(parts.field("sign"), pa.array(["-", "−"])).to_numpy(zero_copy_only=False)
    words = parts.field("factor").to_pylist() if "factor" in names else [""] * len(parts)
    factors = [MONEY_FACTORS.get(word, 1.0) for word in words]
    return np.where(negative, -1.0, 1.0) * _read_floats(parts, "digits") * factors


def _read_floats(parts: pa.StructArray, name: str) -> Floats:
    """Return a group's numbers; the name of a month has its place in the year, a group that is not there reads 0."""
    if parts.type.get_field_index(name) < 0:
        return np.zeros(len(parts))
    texts = parts.field(name)
    if name == "month":
        texts = pa.array([str(_MONTHS.index(text) + 1) if text in _MONTHS else text for text in texts.to_pylist()])
    text = pc.replace_substring(texts, ",", "")
    floats: Floats = pc.cast(pc.if_else(pc.equal(text, ""), "0", text), pa.float64()).to_numpy(zero_copy_only=False)
    return floats
