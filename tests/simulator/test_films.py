"""Films: made by number, and dependent on one another's makers."""

from collections import Counter, defaultdict

import numpy as np
import pytest

from navi.simulator.films import CAST, Cinema
from navi.simulator.genres import GENRE_PLACE
from navi.simulator.population import LAST_YEAR

NUM_FILMS = 4000


@pytest.fixture(scope="module")
def films():
    return Cinema(0, NUM_FILMS).films(np.arange(NUM_FILMS))


def accuracy(target, *given):
    """Accuracy on every fifth film of the most frequent target among the others: overall, and for the same givens."""
    keys = list(zip(*(column.tolist() for column in given), strict=True))
    seen, overall = defaultdict(Counter), Counter()
    held_out = []
    for place, (key, value) in enumerate(zip(keys, target.tolist(), strict=True)):
        if place % 5 == 0:
            held_out.append((key, value))
        else:
            seen[key][value] += 1
            overall[value] += 1
    guess = overall.most_common(1)[0][0]
    hits = [(seen[key].most_common(1)[0][0] if seen[key] else guess) == value for key, value in held_out]
    return np.mean([value == guess for _, value in held_out]), np.mean(hits)


@pytest.mark.parametrize(
    ("target", "given", "margin"),
    [
        ("language", ("country", "studio"), 0.5),
        ("country", ("director",), 0.6),
        ("genre", ("director",), 0.4),
        ("studio", ("director",), 0.6),
        ("distributor", ("studio",), 0.6),
        ("composer", ("director",), 0.5),
        ("certificate", ("genre",), 0.2),
        ("second_genre", ("genre",), 0.2),
        ("month", ("genre",), 0.3),
    ],
)
def test_a_field_follows_from_others_far_better_than_the_most_frequent_guess(films, target, given, margin):
    most_frequent, counting = accuracy(getattr(films, target), *(getattr(films, name) for name in given))
    assert counting > most_frequent + margin


def test_the_lead_actor_tells_the_genre(films):
    most_frequent, counting = accuracy(films.genre, films.cast[:, 0])
    assert counting > most_frequent + 0.3


def test_fields_are_not_certain_either(films):
    _, genre = accuracy(films.genre, films.director)
    _, certificate = accuracy(films.certificate, films.genre)
    assert genre < 0.9
    assert certificate < 0.9


def test_revenue_follows_budget_and_score(films):
    log_budget, log_revenue = np.log(films.budget), np.log(films.revenue)
    assert np.corrcoef(log_budget, log_revenue)[0, 1] > 0.7
    assert np.corrcoef(films.score, log_revenue - log_budget)[0, 1] > 0.6


def test_genre_moves_runtime_and_budget(films):
    animation, war = films.genre == GENRE_PLACE["Animation"], films.genre == GENRE_PLACE["War"]
    documentary = films.genre == GENRE_PLACE["Documentary"]
    assert films.runtime[animation].mean() + 20 < films.runtime[war].mean()
    assert np.median(films.budget[documentary]) * 5 < np.median(films.budget[animation])


def test_a_film_is_the_same_in_any_company(films):
    number = np.array([3999, 17, 1204])
    some = Cinema(0, NUM_FILMS).films(number)
    for name, column in films.__dict__.items():
        assert np.array_equal(getattr(some, name), column[number]), name


def test_another_seed_makes_another_world(films):
    other = Cinema(1, NUM_FILMS).films(np.arange(NUM_FILMS))
    assert np.mean(other.director == films.director) < 0.1


def test_a_series_shares_its_makers_and_goes_forward_in_time(films):
    later = np.flatnonzero(films.instalment > 1)
    assert len(later) > 100
    for name in ("director", "studio", "genre", "language", "root"):
        column = getattr(films, name)
        assert np.array_equal(column[later], column[later - 1]), name
    assert np.all(films.year[later] >= films.year[later - 1])


def test_the_director_is_alive_and_grown_at_the_premiere(films):
    age = films.year - films.birth_year
    assert age.min() >= 24
    assert age.max() <= 90
    assert films.year.max() <= LAST_YEAR


def test_a_cast_has_a_lead_and_nobody_twice(films):
    assert np.all(films.cast[:, 0] >= 0)
    for cast in films.cast[:500].tolist():
        present = [actor for actor in cast if actor >= 0]
        assert len(set(present)) == len(present) <= CAST


def test_old_films_are_black_and_white(films):
    assert films.monochrome[films.year < 1955].all()
    assert not films.monochrome[films.year > 1980].any()
    assert 0.03 < films.monochrome.mean() < 0.3
