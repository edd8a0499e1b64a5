"""How a column writes its dates."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass

from navi.verbs.guessing.numberformat import ENOUGH

MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
PATTERNS = (
    "%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%m/%d/%Y", "%d/%m/%Y", "%d-%m-%Y", "%m-%d-%Y", "%d.%m.%Y", "%m/%d/%y",
    "%d/%m/%y", "%d-%m-%y", "%m-%d-%y", "%d.%m.%y", "%B %d, %Y", "%b %d, %Y", "%B %d %Y", "%b %d %Y", "%d %B %Y",
    "%d %b %Y", "%d-%b-%Y", "%d-%b-%y", "%d-%B-%Y", "%b. %d, %Y", "%d %b, %Y", "%d %B, %Y", "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%m/%d/%Y %H:%M",
)  # fmt: skip
"""Dates that are told apart; of two that explain a column alike, the first is taken."""
_FIELDS = {
    "%Y": r"(?P<Y>\d{4})", "%y": r"(?P<y>\d{2})", "%m": r"(?P<m>\d{1,2})", "%d": r"(?P<d>\d{1,2})",
    "%B": r"(?P<B>[A-Za-z]{3,9})", "%b": r"(?P<b>[A-Za-z]{3,4})", "%H": r"(?P<H>\d{1,2})", "%M": r"(?P<M>\d{2})",
    "%S": r"(?P<S>\d{2})",
}  # fmt: skip
_SHAPES = {
    pattern: re.compile(re.sub(r"%[A-Za-z]", lambda field: _FIELDS[field[0]], re.escape(pattern)))
    for pattern in PATTERNS
}
_LIKE_A_DATE = re.compile(r"(?=.*\d)[\w ,./:\-]{6,30}")
_PIVOT = 69
"""Two-digit years from here on are of the last century."""


@dataclass(frozen=True, kw_only=True)
class DateFormat:
    """The dates of a column: `2021-03-30`, `March 30, 2021`, `4-Apr-14`."""

    pattern: str
    """The form, in the letters of `strftime`."""
    padded: bool
    """Whether days and months of one digit have a zero before them."""
    ambiguous: bool
    """Whether the cells do not tell day from month: then dates of other forms cannot be put into this one."""

    def render(self, text: str) -> str | None:
        """Return the text as this column would write it, or None if it is no date that it could hold.

        >>> learn_dates(["March 30, 2021", "July 4, 1999"]).render("2014-04-04")
        'April 4, 2014'
        """
        own = parse_date(text, self.pattern)
        if own is not None:
            return self._write(own)
        if self.ambiguous:
            return None
        found = {date for date in (parse_date(text, pattern) for pattern in PATTERNS) if date is not None}
        return self._write(found.pop()) if len(found) == 1 else None

    def _write(self, date: datetime.datetime) -> str:
        name = MONTHS[date.month - 1].capitalize()
        number = "02d" if self.padded else "d"
        fields = {
            "%Y": f"{date.year:04d}", "%y": f"{date.year % 100:02d}", "%m": f"{date.month:{number}}",
            "%d": f"{date.day:{number}}", "%B": name, "%b": name[:3], "%H": f"{date.hour:02d}",
            "%M": f"{date.minute:02d}", "%S": f"{date.second:02d}",
        }  # fmt: skip
        return re.sub(r"%[A-Za-z]", lambda field: fields[field[0]], self.pattern)


def parse_date(text: str, pattern: str) -> datetime.datetime | None:
    """Return the date that a text of this pattern stands for, or None."""
    match = _SHAPES[pattern].fullmatch(text)
    if match is None:
        return None
    found = match.groupdict()
    year = int(found["Y"]) if "Y" in found else _complete_year(int(found["y"]))
    month = int(found["m"]) if "m" in found else _find_month(found)
    hour, minute, second = (int(found.get(part) or 0) for part in "HMS")
    try:
        return datetime.datetime(year, month, int(found["d"]), hour, minute, second)
    except ValueError:
        return None


def learn_dates(texts: Sequence[str]) -> DateFormat | None:
    """Return the date format of a column's cells, or None if too few of them are dates of one form."""
    if not texts or sum(_LIKE_A_DATE.fullmatch(text) is not None for text in texts[:50]) < ENOUGH * len(texts[:50]) - 1:
        return None
    fits = {pattern: sum(parse_date(text, pattern) is not None for text in texts) for pattern in PATTERNS}
    best = max(PATTERNS, key=lambda pattern: fits[pattern])
    if fits[best] < ENOUGH * len(texts):
        return None
    swapped = best.translate(str.maketrans("md", "dm"))
    padded = DateFormat(pattern=best, padded=True, ambiguous=fits.get(swapped, 0) == fits[best] and swapped != best)
    return padded if _is_padded(texts, padded) else DateFormat(pattern=best, padded=False, ambiguous=padded.ambiguous)


def _is_padded(texts: Sequence[str], padded: DateFormat) -> bool:
    bare = DateFormat(pattern=padded.pattern, padded=False, ambiguous=padded.ambiguous)
    votes = [(padded.render(text) == text) - (bare.render(text) == text) for text in texts]
    return sum(votes) >= 0


def _complete_year(short: int) -> int:
    return short + (1900 if short >= _PIVOT else 2000)


def _find_month(found: dict[str, str]) -> int:
    """Return the number of a month's name, 0 for no month."""
    if "B" in found:
        name = found["B"].lower()
        return MONTHS.index(name) + 1 if name in MONTHS else 0
    name = "sep" if found["b"].lower() == "sept" else found["b"].lower()
    return next((number for number, month in enumerate(MONTHS, 1) if month[:3] == name), 0)
