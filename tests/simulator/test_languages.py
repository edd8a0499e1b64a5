"""Languages: words that names and titles are built from."""

from navi.simulator.languages import LANGUAGES


def test_no_language_repeats_a_name_part():
    for language in LANGUAGES:
        assert len(set(language.given)) == len(language.given), language.name
        assert len(set(language.surnames)) == len(language.surnames), language.name


def test_every_language_has_words_of_every_kind():
    for language in LANGUAGES:
        kinds = (
            language.given,
            language.surnames,
            language.brands,
            language.houses,
            language.openers,
            language.closers,
        )
        assert all(len(words) >= 4 for words in kinds), language.name


def test_given_names_are_single_words_so_that_initials_fit_behind_them():
    assert not [name for language in LANGUAGES for name in language.given if " " in name]
