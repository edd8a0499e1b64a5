"""How a column writes its numbers and dates, so that a value put among them looks the same."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from navi.columns.quantities import CONVENTIONS, split_number

ENOUGH = 0.9
"""Share of a column's cells that must follow a format for the column to have it."""
RARE = 0.02
"""Share of cells up to which another number of decimals is an exception."""
DATES = (
    "%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%m/%d/%Y", "%d/%m/%Y", "%d-%m-%Y", "%m-%d-%Y", "%d.%m.%Y", "%m/%d/%y",
    "%d/%m/%y", "%d-%m-%y", "%m-%d-%y", "%d.%m.%y", "%B %d, %Y", "%b %d, %Y", "%B %d %Y", "%b %d %Y", "%d %B %Y",
    "%d %b %Y", "%d-%b-%Y", "%d-%b-%y", "%d-%B-%Y", "%b. %d, %Y", "%d %b, %Y", "%d %B, %Y", "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S.%f", "%Y-%m-%d %H:%M", "%m/%d/%Y %H:%M",
    "%d/%m/%Y %H:%M", "%d.%m.%Y %H:%M",
)  # fmt: skip
"""Dates that are told apart, in the letters of `strftime`; of two that explain a column alike, the first is taken."""
_LIKE_A_DATE = re.compile(r"(?=.*\d)[\w ,./:\-]{6,30}")


def learn_format(texts: Sequence[str]) -> NumberFormat | DateFormat | None:
    """Return the format that nearly all of a column's cells follow, numbers or dates; None where any text fits.

    >>> learn_format(["118 min", "95 min", "102 min"]).render("88")
    '88 min'
    """
    return _learn_dates(texts) or _learn_numbers(texts)


@dataclass(frozen=True, kw_only=True)
class NumberFormat:
    """The numbers of a column: `$1,200,000`, `118 min`, `7.50`, `007`."""

    around: tuple[str, str]
    """What stands before and after a number."""
    thousands: str
    """Separator of thousands; empty for none."""
    point: str
    """Decimal point."""
    decimals: tuple[int, int]
    """Decimals of the number with the fewest, and with the most."""
    width: int
    """Digits to which whole numbers are filled up with zeros; 0 for none."""

    def render(self, text: str) -> str | None:
        """Return the text as this column would write it, or None if it is no number that it could hold.

        >>> learn_format(["$1,200,000", "$35,000", "$7,800,000"]).render("950000")
        '$950,000'
        """
        conventions = ((self.thousands, self.point), ("", self.point), *CONVENTIONS)
        parsed = ((found, each[0]) for each in conventions if (found := split_number(text, each)))
        number, thousands = next(parsed, (None, ""))
        if number is None or _fold(number["before"], number["after"]) not in (("", ""), _fold(*self.around)):
            return None
        fewest, most = self.decimals
        decimals = number["decimals"] or ""
        decimals = decimals.rstrip("0") if len(decimals) > most else decimals.ljust(fewest, "0")
        if len(decimals) > most:
            return None
        whole = number["whole"].replace(thousands, "")
        whole = whole.zfill(self.width) if self.width else whole.lstrip("0") or "0"
        if self.thousands:
            whole = f"{int(whole):,}".replace(",", self.thousands)
        return self.around[0] + number["sign"] + whole + (self.point + decimals if decimals else "") + self.around[1]


def _fold(before: str, after: str) -> tuple[str, str]:
    return before.strip().casefold(), after.strip().casefold()


def _learn_numbers(texts: Sequence[str]) -> NumberFormat | None:
    parsed = {each: [found for text in texts if (found := split_number(text, each))] for each in CONVENTIONS}
    thousands, point = max(CONVENTIONS, key=lambda each: len(parsed[each]))
    around = Counter((found["before"], found["after"]) for found in parsed[thousands, point])
    usual = max(around, key=lambda each: around[each], default=("", ""))
    if around[usual] < ENOUGH * max(len(texts), 1):
        return None
    numbers = [found for found in parsed[thousands, point] if (found["before"], found["after"]) == usual]
    wholes = [found["whole"].replace(thousands, "") for found in numbers]
    grouped = [whole != found["whole"] for whole, found in zip(wholes, numbers, strict=True) if len(whole) > 3]
    decimals = Counter(len(found["decimals"] or "") for found in numbers)
    common = [places for places, cells in decimals.items() if cells > RARE * len(numbers)]
    widths = {len(whole) for whole in wholes}
    padded = len(widths) == 1 and any(whole.startswith("0") and len(whole) > 1 for whole in wholes)
    return NumberFormat(
        around=usual,
        thousands=thousands if sum(grouped) * 2 > len(grouped) else "",
        point=point,
        decimals=(min(common), max(common)),
        width=widths.pop() if padded else 0,
    )


@dataclass(frozen=True, kw_only=True)
class DateFormat:
    """The dates of a column: `2021-03-30`, `March 30, 2021`, `4-Apr-14`."""

    pattern: str
    """The form, in the letters of `strftime`."""
    padded: bool
    """Whether days and months of one digit have a zero before them."""
    ambiguous: bool
    """Whether the cells leave open which is the day and which the month: then other forms cannot be put into this."""

    def render(self, text: str) -> str | None:
        """Return the text as this column would write it, or None if it is no date that it could hold.

        >>> learn_format(["March 30, 2021", "July 4, 1999"]).render("2014-04-04")
        'April 4, 2014'
        """
        own = parse_date(text, self.pattern)
        if own is not None:
            return self._write(own)
        if self.ambiguous:
            return None
        found = {date for date in (parse_date(text, pattern) for pattern in DATES) if date is not None}
        return self._write(found.pop()) if len(found) == 1 else None

    def _write(self, date: datetime.datetime) -> str:
        day, month = (f"{number:02d}" if self.padded else str(number) for number in (date.day, date.month))
        fields = {"%d": day, "%m": month, "%Y": f"{date.year:04d}"}
        return re.sub(r"%[A-Za-z]", lambda field: fields.get(field[0]) or date.strftime(field[0]), self.pattern)


def parse_date(text: str, pattern: str) -> datetime.datetime | None:
    """Return the date in a text, None where it is not written so; spaces before a comma do not count."""
    try:
        return datetime.datetime.strptime(re.sub(r"\s+,", ",", re.sub(r"\bSept\b", "Sep", text.strip())), pattern)
    except ValueError:
        return None


def _learn_dates(texts: Sequence[str]) -> DateFormat | None:
    if sum(_LIKE_A_DATE.fullmatch(text) is not None for text in texts) < ENOUGH * max(len(texts), 1):
        return None
    possible = [pattern for pattern in DATES if any(parse_date(text, pattern) for text in texts[:10])]
    fits = {pattern: sum(parse_date(text, pattern) is not None for text in texts) for pattern in possible}
    best = max(possible, key=lambda pattern: fits[pattern], default="")
    if fits.get(best, 0) < ENOUGH * max(len(texts), 1):
        return None
    swapped = best.translate(str.maketrans("md", "dm"))
    ambiguous = swapped != best and fits.get(swapped, 0) == fits[best]
    padded = DateFormat(pattern=best, padded=True, ambiguous=ambiguous)
    bare = replace(padded, padded=False)
    votes = [(padded.render(text) == text) - (bare.render(text) == text) for text in texts]
    return padded if sum(votes) >= 0 else bare
