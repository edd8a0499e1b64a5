"""Genres: habits and words."""

from navi.simulator.genres import GENRE_PLACE, GENRES


def test_companions_are_other_genres():
    for genre in GENRES:
        assert len(set(genre.companions)) == 3
        assert set(genre.companions) <= GENRE_PLACE.keys() - {genre.name}


def test_every_genre_weighs_five_certificates_and_opens_in_a_month():
    for genre in GENRES:
        assert len(genre.certificates) == 5
        assert 1 <= genre.season <= 12


def test_no_genre_repeats_a_word_of_its_titles_or_tags():
    for genre in GENRES:
        for words in (genre.qualities, genre.things, genre.keywords, genre.heroes, genre.quests):
            assert len(set(words)) == len(words) >= 4, genre.name


def test_words_of_titles_belong_to_one_genre_mostly():
    things = [thing for genre in GENRES for thing in genre.things]
    assert len(set(things)) / len(things) > 0.95
