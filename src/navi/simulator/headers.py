"""The words catalogues use for the same concept, and the ways they write them."""

from __future__ import annotations

HEADERS: dict[str, tuple[str, ...]] = {
    concept: tuple(words.split("|"))
    for concept, words in {
        "id": "id|film id|movie id|record number|key|entry",
        "url": "url|link|page url|web page|permalink|homepage",
        "source": "source|catalogue|provider|data source|database|origin",
        "title_type": "type|kind|title type|category|media type|format",
        "title": "title|movie name|film|name|film title|movie title|primary title",
        "original_title": (
            "original title|original name|foreign title|native title|title in original language|orig title"
        ),
        "series": "series|franchise|collection|saga|belongs to collection|part of series",
        "release_year": "year|release year|yr|production year|year released|start year",
        "release_date": "release date|released|premiere|date published|opening date|released on|first shown",
        "runtime": "runtime|duration|length|running time|minutes|run time",
        "genre": "genre|genres|category|listed in|film genre|style|main genre",
        "director": "director|directed by|directors|film director|filmmaker|helmed by",
        "director_nationality": (
            "director nationality|director country|nationality|director origin|nationality of director"
        ),
        "director_birth_year": "director born|director birth year|born|director year of birth|birth year",
        "writer": "writer|written by|screenplay|screenwriter|author|script",
        "composer": "composer|music by|music|score by|original music|soundtrack",
        "actor": "cast|actors|starring|stars|performers|leading actors|main cast",
        "character": "character|role|plays|character name|as",
        "studio": "studio|production company|produced by|company|production house|production companies",
        "distributor": "distributor|distributed by|released by|distribution|distribution company|publisher",
        "country": "country|country of origin|production country|made in|nation|origin country",
        "language": "language|original language|spoken language|lang|audio|film language",
        "location": "location|filming location|shot in|filmed in|shooting place|setting",
        "certificate": "certificate|mpaa|content rating|rated|age rating|classification|certification",
        "budget": "budget|production budget|cost|production cost|estimated budget|budget usd",
        "revenue": "revenue|gross|worldwide gross|box office|total gross|lifetime gross|earnings",
        "user_score": "rating|score|user rating|average rating|vote average|audience score|viewer rating",
        "critic_score": "critic score|metascore|critics|press rating|critic rating|reviews score",
        "vote_count": "votes|vote count|num votes|rating count|number of ratings|user votes",
        "best_score": "best rating|scale|max score|out of|maximum",
        "currency": "currency|currency code|money unit|monetary unit|curr",
        "description": "description|plot|synopsis|overview|summary|storyline|about",
        "keywords": "keywords|tags|plot keywords|themes|topics|labels",
        "color": "color|colour|color info|picture|color mode|film stock",
        "awards": "awards|prizes|accolades|award summary|wins and nominations|honours",
    }.items()
}
"""For each concept, the words its headers are made of."""

GROUPS: dict[str, tuple[str, ...]] = {
    group: tuple(words.split("|"))
    for group, words in {
        "director": "director|directed by|filmmaker",
        "production": "production|made by|origin",
        "rating": "aggregate rating|ratings|user reviews",
        "release": "release|publication|premiere info",
        "money": "box office|financials|economics",
    }.items()
}
"""For each group of nested cells, the words of the key that holds it."""

STYLES = ("snake", "camel", "title", "lower", "snake", "pascal", "kebab", "upper")
"""Ways of writing a header; the commonest stands twice."""


def write_header(words: str, style: str) -> str:
    """The words of a header written in a style.

    >>> write_header("release year", "camel")
    'releaseYear'
    """
    parts = words.split()
    if style == "camel":
        return parts[0] + "".join(part.capitalize() for part in parts[1:])
    if style == "title":
        return " ".join(part.capitalize() for part in parts)
    if style == "pascal":
        return "".join(part.capitalize() for part in parts)
    joined = {"snake": "_", "upper": "_", "kebab": "-", "lower": " "}[style].join(parts)
    return joined.upper() if style == "upper" else joined
