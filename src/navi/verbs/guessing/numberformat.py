"""How a column writes its numbers: signs around them, thousands, decimals, leading zeros."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

CONVENTIONS = (
    ("", "."),
    (",", "."),
    (".", ","),
    ("", ","),
    (" ", ","),
    (" ", "."),
    ("\u00a0", ","),
    ("\u202f", ","),
    ("'", "."),
)
"""What stands between thousands, and before decimals; of two that explain a column alike, the first is taken."""
ENOUGH = 0.9
"""Share of a column's cells that must follow a format for the column to have it."""
RARE = 0.02
"""Share of cells up to which what surrounds a number is an exception."""
MOST_SURROUNDINGS = 5
_NUMBER = re.compile(
    r"(?P<before>[^\d+\-]{0,8}?)(?P<sign>[+-]?)(?P<body>\d(?:[\d.,' \u00a0\u202f]*\d)?)(?P<after>\D{0,12})"
)
_BODIES = {
    (thousands, point): re.compile(
        r"(?:\d+"
        + (rf"|\d{{1,3}}(?:{re.escape(thousands)}\d{{3}})+" if thousands else "")
        + rf")(?:{re.escape(point)}\d+)?"
    )
    for thousands, point in CONVENTIONS
}


@dataclass(frozen=True, kw_only=True)
class Number:
    """A number taken apart: no digit is lost."""

    before: str
    """What stands before it, such as `$`."""
    sign: str
    """`-`, `+` or nothing."""
    whole: str
    """Digits before the decimal point, no separators."""
    decimals: str
    """Digits after it."""
    after: str
    """What stands after it, such as ` min`."""
    grouped: bool
    """Whether separators stood between thousands."""

    @property
    def surroundings(self) -> tuple[str, str]:
        """What stands before and after the number."""
        return self.before, self.after


@dataclass(frozen=True, kw_only=True)
class NumberFormat:
    """The numbers of a column: `$1,200,000`, `118 min`, `7.50`, `007`."""

    surroundings: tuple[tuple[str, str], ...]
    """What stands before and after a number, most frequent first."""
    single: bool
    """Whether the first surroundings are the rule, so that a bare number can be given them."""
    thousands: str
    """Separator of thousands; empty for none."""
    point: str
    """Decimal point."""
    least_decimals: int
    """Decimals of the number with the fewest."""
    most_decimals: int
    """Decimals of the number with the most."""
    width: int
    """Digits to which whole numbers are filled up with zeros; 0 for none."""

    def render(self, text: str) -> str | None:
        """Return the text as this column would write it, or None if it is no number that it could hold.

        >>> learn_numbers(["$1,200,000", "$35,000", "$7,800,000"]).render("950000")
        '$950,000'
        """
        number = self._parse(text)
        if number is None:
            return None
        around = number.surroundings
        if around not in self.surroundings:
            same = [kept for kept in self.surroundings if _fold(kept) == _fold(around)]
            bare = _fold(around) == ("", "") and self.single
            if not same and not bare:
                return None
            around = same[0] if same else self.surroundings[0]
        decimals = number.decimals.rstrip("0") if len(number.decimals) > self.most_decimals else number.decimals
        if len(decimals) > self.most_decimals:
            return None
        return around[0] + number.sign + self._write(number.whole, decimals.ljust(self.least_decimals, "0")) + around[1]

    def _parse(self, text: str) -> Number | None:
        own = (self.thousands, self.point)
        for convention in (own, ("", self.point), *CONVENTIONS):
            number = parse_number(text, convention)
            if number is not None:
                return number
        return None

    def _write(self, whole: str, decimals: str) -> str:
        whole = whole.zfill(self.width) if self.width else whole.lstrip("0") or "0"
        if self.thousands:
            head = len(whole) % 3 or 3
            whole = self.thousands.join([whole[:head], *(whole[i : i + 3] for i in range(head, len(whole), 3))])
        return whole + (self.point + decimals if decimals else "")


def parse_number(text: str, convention: tuple[str, str] = ("", ".")) -> Number | None:
    """Take a number apart that is written by a convention (thousands, point), with few signs around it."""
    match = _NUMBER.fullmatch(text)
    if match is None or not _BODIES[convention].fullmatch(match["body"]):
        return None
    thousands, point = convention
    whole, _, decimals = match["body"].partition(point)
    bare = whole.replace(thousands, "") if thousands else whole
    return Number(
        before=match["before"],
        sign=match["sign"],
        whole=bare,
        decimals=decimals,
        after=match["after"],
        grouped=bare != whole,
    )


def learn_numbers(texts: Sequence[str]) -> NumberFormat | None:
    """Return the number format of a column's cells, or None if too few of them are numbers."""
    if not texts or sum(_NUMBER.fullmatch(text) is not None for text in texts[:50]) < ENOUGH * len(texts[:50]) - 1:
        return None
    parsed, convention = max(
        (([parse_number(text, each) for text in texts], each) for each in CONVENTIONS),
        key=lambda entry: sum(number is not None for number in entry[0]),
    )
    numbers = [number for number in parsed if number is not None]
    around = Counter(number.surroundings for number in numbers).most_common()
    kept = [pair for pair, count in around if count > RARE * len(numbers)]
    covered = sum(number.surroundings in kept for number in numbers)
    if covered < ENOUGH * len(texts) or len(kept) > MOST_SURROUNDINGS:
        return None
    return _describe(numbers, convention, kept, around[0][1] >= ENOUGH * len(numbers))


def _describe(
    numbers: Sequence[Number], convention: tuple[str, str], kept: Sequence[tuple[str, str]], single: bool
) -> NumberFormat:
    large = [number.grouped for number in numbers if len(number.whole) > 3]
    decimals = Counter(len(number.decimals) for number in numbers)
    usual = [count for count, cells in decimals.items() if cells > RARE * len(numbers)]
    widths = {len(number.whole) for number in numbers}
    padded = len(widths) == 1 and any(number.whole.startswith("0") and len(number.whole) > 1 for number in numbers)
    return NumberFormat(
        surroundings=tuple(kept),
        single=single,
        thousands=convention[0] if sum(large) * 2 > len(large) else "",
        point=convention[1],
        least_decimals=min(usual),
        most_decimals=max(usual),
        width=widths.pop() if padded else 0,
    )


def _fold(around: tuple[str, str]) -> tuple[str, str]:
    return around[0].strip().casefold(), around[1].strip().casefold()
