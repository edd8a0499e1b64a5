"""Headers that say nothing: those which programs make up, and those which are no words."""

from __future__ import annotations

import re

_FILLER = re.compile(
    r"col(umn)?s?|fields?|attr(ibute)?s?|var(iable)?s?|un(named|known|titled)|empty|blank|head(er|ing)|none|null|nan?"
    r"|tbd|te?mp|level|spalte|colonne|columna|coluna|campo"
)
_NUMBERED_FILLER = re.compile(rf"{_FILLER.pattern}|[cfvx]|feat(ure)?|val(ue)?|data|key|item|cell|entry")
_WORDS = re.compile(r"[^\W\d_]+")
_SHEET_LETTERS = re.compile(r"A?[A-Z]")


def is_useless(header: str) -> bool:
    """Tell whether a header says nothing of its column: `col_3`, `Unnamed: 7`, `x`, `A`, `12`, an empty one.

    >>> [is_useless(header) for header in ("col_3", "Unnamed: 7", "x", "AB", "field12", "1999", "?", "", "V1")]
    [True, True, True, True, True, True, True, True, True]
    >>> [is_useless(header) for header in ("title", "id", "r10", "actor 1", "año", "features", "TV")]
    [False, False, False, False, False, False, False]
    """
    words = _WORDS.findall(header.casefold())
    if not words or _SHEET_LETTERS.fullmatch(header.strip()):
        return True
    if words == [header.strip().casefold()] and len(words[0]) == 1 and words[0].isascii():
        return True
    filler = _NUMBERED_FILLER if any(letter.isdigit() for letter in header) else _FILLER
    return all(filler.fullmatch(word) for word in words)
