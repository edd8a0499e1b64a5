"""Two views of a column: its header and its values as another source would have written them."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib import resources
from random import Random
from typing import Any

from navi.columns.headers import make_singular

Group = dict[str, list[str]]
"""Words of one meaning: `en` synonyms, `ab` abbreviations, `unit` hints, and translations by language."""
Words = list[str]
_Quantity = tuple[str, float, int, str, str]
"""What stands before a number, the number, how many decimals, what divides its thousands, what stands after."""
Write = Callable[[Any], str]

_LANGUAGES = ("de", "fr", "es", "it", "pt")
_UPPER, _LOWER = "[A-ZÀ-ÖØ-Þ]", r"[^\W\d_A-ZÀ-ÖØ-Þ]"
_WORDS = re.compile(rf"{_UPPER}{{2,}}s?(?!{_LOWER})|{_UPPER}?{_LOWER}+|{_UPPER}+|\d+")
_HINT = re.compile(r"\s*[(\[][^()\[\]]*[)\]]\s*$")
_LOW, _UP, _TITLE = str.lower, str.upper, str.capitalize
_SEPARATORS = ("_", "_", "_", " ", " ", " ", "", "", "-", ".")
_CASES = ((_LOW, _LOW), (_LOW, _LOW), (_UP, _UP), (_TITLE, _TITLE), (_TITLE, _TITLE), (_TITLE, _LOW), (_LOW, _TITLE))
"""How the first word of a header is written, and how the others are."""
_VOWELS = re.compile(r"(?<=\w)[aeiouäöüáéíóúàèêãõ]")
_MONTH, _DAY = r"([a-zé]{3})[a-zéû]*\.?", r"(?:[a-z]{3,9}\.?,? )?(\d{1,2})(?:st|nd|rd|th)?"
_DATE = re.compile(
    r"(?:(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})|(\d{1,2})[-/.](\d{1,2})[-/.](\d{4}|\d{2})"
    rf"|(?:[a-z]{{3,9}}\.?,? )?{_MONTH} {_DAY},? (\d{{4}})|{_DAY}[. -]+{_MONTH},?[ -]+(\d{{4}}|\d{{2}}))"
    r"(?:[T ,]+\d{1,2}:\d{2}.{0,20})?",
    re.IGNORECASE | re.ASCII,
)
_DURATION = re.compile(
    r"(?=.*(?:h|min|m.*s))(?:PT)?(?:(\d{1,3}) ?h(?:ou)?r?s?\.?,? ?)?(?:(\d{1,4}) ?m(?:in(?:ute)?s?)?\.?,? ?)?"
    r"(?:(\d{1,5}) ?s(?:ec(?:ond)?s?)?\.?)?|(?:(\d{1,2}):([0-5]\d)|(\d)):([0-5]\d)",
    re.IGNORECASE | re.ASCII,
)
_SECONDS = (3600, 60, 1, 3600, 60, 60, 1)
"""What each group of a duration is worth."""
_QUANTITY = re.compile(
    r"((?:US\$|[$€£¥₹#~<>]|[A-Z]{3}|Rs\.?)? ?)([-−+]?)"
    r"(\d{1,3}(?:,\d{3})+|\d{1,3}(?:\.\d{3})+(?=,)|\d{1,14})(?:[.,](\d{1,10}))?"
    r"((?: ?[a-zA-Zµ]{1,10}[²³2]?\.?(?:/[a-z]{1,4})?| ?[%°$€£¥₹\"'′″]{1,2}[CF]?){0,2})",
    re.ASCII,
)
_YEAR = re.compile(r"1[5-9]\d\d|20\d\d", re.ASCII)


@cache
def load_lexicon() -> dict[str, Any]:
    """Return the packaged words and formats, with `terms` (the group of each clear word) and `units` (their scales)."""
    text = (resources.files("navi.columns") / "data" / "lexicon.json").read_text(encoding="utf-8")
    lexicon: dict[str, Any] = json.loads(text)
    groups = [{key: words.split("|") for key, words in group.items()} for group in lexicon["groups"]]
    named = [(word, group) for group in groups for word in {*group["en"], *group.get("ab", ())}]
    owners = Counter(word for word, _ in named)
    lexicon["terms"] = {word: group for word, group in named if owners[word] == 1 and len(word) > 1}
    lexicon["terms"] |= {group["en"][0]: group for group in groups}
    lexicon["units"] = {unit.lower(): scale for scale in reversed(lexicon["scales"]) for unit in scale if unit}
    lexicon["rewrites"] = [(re.compile(pattern), replacements) for pattern, replacements in lexicon["rewrites"]]
    return lexicon


def perturb_header(header: str, generator: Random) -> str:
    """Return a header with one to three changes, as another schema might call the same column; never an empty one."""
    hint = _HINT.search(header)
    body = header[: hint.start()] if hint else header
    found = _WORDS.findall(body)
    if not found:
        return f"{header.strip()}_{generator.choice(load_lexicon()['suffixes'])}".lstrip("_")
    words = [word.lower() for word in found]
    # In this order, because a word that is misspelled or cut could be taken for another one.
    num_changes = generator.choice((0, 1, 1, 1, 2, 2))
    for change in sorted(generator.choices(range(len(_CHANGES)), cum_weights=_CHANGE_WEIGHTS, k=num_changes)):
        words = _CHANGES[change](words, generator)
    changed = _join(words, generator)
    if hint and generator.random() < 0.6:
        changed += hint.group()
    elif not hint and generator.random() < 0.08:
        units = [unit for _, _, group in _find_terms(words) for unit in group.get("unit", ())]
        changed += f" ({generator.choice(units)})" if units else generator.choice(load_lexicon()["hints"])
    return changed if changed != header else _join(_add_filler(words, generator), generator)


def _join(words: Words, generator: Random) -> str:
    separator = generator.choice(_SEPARATORS)
    first, others = generator.choice(_CASES[:-1] if separator else _CASES)
    return separator.join([first(words[0]), *map(others, words[1:])])


def _find_terms(words: Words) -> list[tuple[int, int, Group]]:
    """Return the known terms among the words, the longest from the left: where each begins and ends, and its group."""
    terms, found, start = load_lexicon()["terms"], [], 0
    while start < len(words):
        for stop in range(min(start + 3, len(words)), start, -1):
            phrase = " ".join(words[start:stop])
            if group := terms.get(phrase) or terms.get(make_singular(phrase)):
                found.append((start, stop, group))
                start = stop - 1
                break
        start += 1
    return found


def _replace_terms(words: Words, generator: Random, kind: str, share: float) -> Words:
    """Return the words with one known term, and a share of the others, in another word of its group."""
    terms = [term for term in _find_terms(words) if kind in term[2]]
    chosen = generator.choice(terms) if terms else None
    for start, stop, group in reversed(terms):
        if (start, stop, group) == chosen or generator.random() < share:
            current = " ".join(words[start:stop])
            options = [word for word in group[kind] if word != current] or [current]
            words = [*words[:start], *generator.choice(options).split(), *words[stop:]]
    return words


def _translate(words: Words, generator: Random) -> Words:
    language = generator.choice(_LANGUAGES)
    changed = _replace_terms(words, generator, language, 0.9)
    if changed != words and len(words) == len(changed) == 2 and generator.random() < 0.6:
        changed = ["".join(changed)] if language == "de" else changed[::-1]
    return [_strip_accents(word) for word in changed] if generator.random() < 0.5 else changed


def _shorten(words: Words, generator: Random) -> Words:
    """Return known abbreviations, initials, or the words, sometimes the longest alone, without vowels or cut."""
    if generator.random() < 0.6 and (known := _replace_terms(words, generator, "ab", 0.6)) != words:
        return known
    if len(words) > 1 and generator.random() < 0.2:
        return ["".join(word[0] for word in words)]
    length, least = generator.choice((0, 0, 3, 4, 5)), max(generator.choice((0, max(map(len, words)))), 5)
    return [word if len(word) < least else word[:length] if length else _VOWELS.sub("", word) for word in words]


def _misspell(words: Words, generator: Random) -> Words:
    """Return the words with two letters of the longest swapped, one dropped or one doubled; numbers are spared."""
    index = max(range(len(words)), key=lambda index: (words[index].isalpha(), len(words[index])))
    word = words[index]
    place = generator.randrange(max(len(word) - 1, 1))
    one, two = word[place], word[place + 1 : place + 2]
    changed = generator.choice((two + one, two, one + one + two)) if len(word) > 3 else one + one + two
    return [*words[:index], word[:place] + changed + word[place + 2 :], *words[index + 1 :]]


def misspell(text: str, generator: Random) -> str:
    """Return a text with a word left out, if it has many, or its longest word misspelled."""
    words = text.split()
    if len(words) > 2 and generator.random() < 0.5:
        return " ".join(_drop_word(words, generator))
    return " ".join(_misspell(words, generator)) if words else text


def _drop_word(words: Words, generator: Random) -> Words:
    dropped = generator.randrange(len(words))
    kept = words[:dropped] + words[dropped + 1 :]
    return kept if any(map(str.isalpha, kept)) else words


def _add_filler(words: Words, generator: Random) -> Words:
    if generator.random() < 0.5:
        return [generator.choice(load_lexicon()["prefixes"]), *words]
    return [*words, generator.choice(load_lexicon()["suffixes"])]


def _change_plural(words: Words, _: Random) -> Words:
    if not words[-1].isalpha():
        return words
    singular = make_singular(words[-1])
    plural = f"{singular[:-1]}ies" if singular.endswith("y") else f"{singular}s"
    return [*words[:-1], plural if singular == words[-1] else singular]


_use_synonym = partial(_replace_terms, kind="en", share=0.3)
_CHANGES = (_use_synonym, _translate, _shorten, _drop_word, _change_plural, _misspell, _add_filler)
_CHANGE_WEIGHTS = (5, 8, 14, 15, 16, 18, 20)


def _strip_accents(text: str) -> str:
    return "".join(letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))


def perturb_values(values: Sequence[str], generator: Random) -> list[str]:
    """Return as many values: half of the time as they are, else all with the same change of format."""
    sample = [value.strip() for value in values if value and not value.isspace()][:8]
    if not sample or generator.random() < 0.5:
        return list(values)
    for read, choose, share in _KINDS if generator.random() < 0.9 else _KINDS[-1:]:
        found = [parts for parts in map(read, sample) if parts is not None]
        if len(found) >= share * len(sample):
            write = choose(found, generator)
            return [value if (parts := read(value.strip())) is None else write(parts) for value in values]
    return list(values)


def _read_boolean(value: str) -> int | None:
    flag = value.casefold()
    return next((pair.index(flag) for pair in load_lexicon()["booleans"] if flag in pair), None)


def _choose_boolean(_: list[int], generator: Random) -> Write:
    recase = generator.choice((_LOW, _UP, _TITLE))
    return [recase(word) for word in generator.choice(load_lexicon()["booleans"])].__getitem__


def _read_date(value: str) -> tuple[int, int, int] | None:
    """Return year, month and day; where a number may be either, the first is the month unless dots divide them."""
    match = _DATE.fullmatch(value)
    if not match:
        return None
    end = match.lastindex or 3
    day, month, year = match.group(end - 2, end - 1, end)
    if end == 3:
        day, year = year, day
    elif end == 9 or (end == 6 and "." not in value):
        day, month = month, day
    number = int(month) if month.isdigit() else load_lexicon()["months"].get(month.lower())
    century = 0 if len(year) == 4 else 2000 if int(year) < 40 else 1900
    return (int(year) + century, number, int(day)) if number else None


def _choose_date(found: list[tuple[int, int, int]], generator: Random) -> Write:
    template: str = generator.choice(load_lexicon()["dates"])
    names, swapped = load_lexicon()["month_names"], any(month > 12 for _, month, _ in found)

    def write(date: tuple[int, int, int]) -> str:
        year, month, day = (date[0], date[2], date[1]) if swapped else date
        name = names[(month - 1) % 12]
        return template.format(y=year, m=month, d=day, s=year % 100, B=name, b=name[:3])

    return write


def _read_duration(value: str) -> int | None:
    match = _DURATION.fullmatch(value)
    return match and sum(int(part) * worth for part, worth in zip(match.groups("0"), _SECONDS, strict=True))


def _choose_duration(_: list[int], generator: Random) -> Write:
    template: str = generator.choice(load_lexicon()["durations"])
    return lambda all_: template.format(h=all_ // 3600, m=all_ // 60 % 60, s=all_ % 60, t=all_ / 60, a=all_)


def _read_quantity(value: str) -> _Quantity | None:
    match = _QUANTITY.fullmatch(value)
    if not match:
        return None
    before, sign, whole, decimals, after = match.groups("")
    number = float(f"{whole.replace(',', '').replace('.', '')}.{decimals}")
    return before, -number if sign in ("-", "−") else number, len(decimals), "," * ("," in whole), after


def _choose_quantity(found: list[_Quantity], generator: Random) -> Write:
    """Return how to write quantities: with other signs around them, or other separators or decimals, or both."""
    ratio, around = _choose_marks(found, generator) if generator.random() < 0.7 else (1.0, None)
    restyled = around is None or generator.random() < 0.3
    style = generator.choice(load_lexicon()["number_styles"]) if restyled else None
    shift = generator.choice((-2, -1, 0, 0, 0, 1, 2)) if restyled else 0

    def write(quantity: _Quantity) -> str:
        before, number, decimals, thousands, after = quantity
        number *= ratio
        if ratio != 1:
            decimals = min(max(2 - math.floor(math.log10(abs(number) or 1.0)), 0), 4)
        elif shift:
            decimals = max(decimals + shift, 0 if abs(number) >= 20 else min(decimals, 2))
        thousands, point = style or (thousands, ".")
        before, after = around or (before, after)
        return f"{before}{f'{number:,.{decimals}f}'.translate({44: thousands, 46: point})}{after}"

    return write


def _choose_marks(found: list[_Quantity], generator: Random) -> tuple[float, tuple[str, str]]:
    """Return what numbers are multiplied by, and what stands before and after them then."""
    lexicon, (before, _, _, _, after) = load_lexicon(), found[0]
    top, exact = max(abs(number) for _, number, *_ in found), any(decimals for _, _, decimals, *_ in found)
    unit = (after or before).strip().lower()
    scale = lexicon["units"].get(unit or ("k" if top >= 20_000 else "%" if exact and top <= 1 else ""))
    if not scale or generator.random() < 0.15:
        return 1.0, generator.choice(lexicon["marks"]["decimals" if exact else "whole"]) if not unit else ("", "")
    worth = next(worth for name, worth in scale.items() if name.lower() == unit)
    options = [
        name for name in scale if not name or 0.05 <= top * worth / scale[name] <= 20_000 or name.lower() == unit
    ]
    name, gap = generator.choice(options), generator.choice(("", " "))
    if before.strip() and not after and len(name) <= 3 and generator.random() < 0.5:
        return worth / scale[name], (name + gap, "")
    return worth / scale[name], (before if after or not unit else "", (gap + name).rstrip())


def _choose_text(sample: list[str], generator: Random) -> Write:
    """Return a change of what most values have, such as names or lists, or of case or length, or add junk."""
    lexicon = load_lexicon()
    rewrites = [each for each in lexicon["rewrites"] if sum(map(bool, map(each[0].search, sample))) > 0.6 * len(sample)]
    if rewrites and generator.random() < 0.7:
        pattern, replacements = generator.choice(rewrites)
        return partial(pattern.sub, generator.choice(replacements))
    length = max(map(len, sample))
    if length > 40 and generator.random() < 0.4:
        cut, ending = generator.randrange(15, length), generator.choice(("", "...", "…"))
        return lambda value: value[:cut] + ending if len(value) > cut else value
    if generator.random() < 0.6:
        return generator.choice((str.upper, str.lower, str.title, str.capitalize, _strip_accents))
    junk: str = generator.choice(lexicon["junk"])
    return junk.format


_KINDS: tuple[tuple[Callable[[str], Any], Callable[[list[Any], Random], Write], float], ...] = (
    (_read_boolean, _choose_boolean, 1.0),
    (_read_date, _choose_date, 0.7),
    (lambda value: value if _YEAR.fullmatch(value) else None, _choose_text, 1.0),
    (_read_duration, _choose_duration, 0.7),
    (_read_quantity, _choose_quantity, 0.7),
    (lambda value: value or None, _choose_text, 0.0),
)
