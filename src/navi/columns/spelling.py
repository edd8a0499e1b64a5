"""Headers as words that can be compared: without case, signs, footnotes and the plural."""

from __future__ import annotations

import re

from navi.corpus import canonicalise

_MARKS = re.compile(r"\[\d*\]?|\(e?s\)")
_WORDS = re.compile(r"[^\W_]+")
_ES = ("ses", "xes", "zes", "ches", "shes")


def spell_words(header: str) -> list[str]:
    """Return the words of a header, canonical and in the singular; signs, footnotes and `(s)` are left out.

    >>> spell_words("Director(s)"), spell_words("releaseDates:"), spell_words("Land area (km2) [49]")
    (['director'], ['release', 'date'], ['land', 'area', 'km2'])
    """
    return [_make_singular(word) for word in _WORDS.findall(_MARKS.sub(" ", canonicalise(header)))]


def _make_singular(word: str) -> str:
    """Return an English word without its plural ending; what is made of other words is the same for both headers."""
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    if len(word) > 4 and word.endswith(_ES):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word
