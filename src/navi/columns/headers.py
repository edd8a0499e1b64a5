"""Headers as words: which say nothing, which are spelled alike, which are members of one list."""

from __future__ import annotations

import re
from functools import lru_cache

from navi.corpus import canonicalise

_FILLER = re.compile(
    r"col(umn)?s?|fields?|attr(ibute)?s?|var(iable)?s?|un(named|known|titled)|empty|blank|head(er|ing)|none|null|nan?"
    r"|tbd|te?mp|level|spalte|colonne|columna|coluna|campo"
)
_NUMBERED_FILLER = re.compile(rf"{_FILLER.pattern}|[cfvx]|feat(ure)?|val(ue)?|data|key|item|cell|entry")
_LETTERS = re.compile(r"[^\W\d_]+")
_SHEET_LETTERS = re.compile(r"A?[A-Z]")
_FOOTNOTES = re.compile(r"\[\d*\]?|\(e?s\)")
_WORDS = re.compile(r"[^\W_]+")
_PLACE = re.compile(r"(?<!\d)\d{1,2}(?!\d)")
_ES = ("ses", "xes", "zes", "ches", "shes")


@lru_cache(1 << 16)
def is_useless(header: str) -> bool:
    """Return whether a header says nothing of its column: `col_3`, `Unnamed: 7`, `x`, `A`, `12`, an empty one.

    >>> [is_useless(header) for header in ("col_3", "Unnamed: 7", "x", "AB", "field12", "1999", "?", "", "V1")]
    [True, True, True, True, True, True, True, True, True]
    >>> [is_useless(header) for header in ("title", "id", "r10", "actor 1", "año", "features", "TV")]
    [False, False, False, False, False, False, False]
    """
    words = _LETTERS.findall(header.casefold())
    if not words or _SHEET_LETTERS.fullmatch(header.strip()):
        return True
    if words == [header.strip().casefold()] and len(words[0]) == 1 and words[0].isascii():
        return True
    filler = _NUMBERED_FILLER if any(letter.isdigit() for letter in header) else _FILLER
    return all(filler.fullmatch(word) for word in words)


def split_header(header: str) -> list[str]:
    """Return the words of a header, canonical and in the singular; signs, footnotes and `(s)` are left out.

    >>> split_header("Director(s)"), split_header("releaseDates:"), split_header("Land area (km2) [49]")
    (['director'], ['release', 'date'], ['land', 'area', 'km2'])
    """
    return [make_singular(word) for word in _WORDS.findall(_FOOTNOTES.sub(" ", canonicalise(header)))]


def make_singular(word: str) -> str:
    """Return an English word without its plural ending; what is made of other words is the same for both headers."""
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    if len(word) > 4 and word.endswith(_ES):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def split_place(header: str) -> tuple[str, tuple[int, ...]]:
    """Return what the headers of all members of a list share, and the place of this one in it; years are no place.

    >>> split_place("actor_1_name"), split_place("cast.0.name"), split_place("Revenue 2021")
    (('actor name', (1,)), ('cast name', (0,)), ('revenue 2021', ()))
    """
    return canonicalise(_PLACE.sub(" ", header)), tuple(map(int, _PLACE.findall(header)))
