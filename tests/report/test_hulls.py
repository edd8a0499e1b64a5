from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from navi.report.hulls import find_hull

points = st.lists(st.tuples(st.integers(-20, 20), st.integers(-20, 20)), min_size=1, max_size=40)


def turn(first, second, third):
    return (second[0] - first[0]) * (third[1] - first[1]) - (second[1] - first[1]) * (third[0] - first[0])


@given(points)
def test_every_point_is_within_the_hull_and_every_corner_is_a_point(found):
    corners = find_hull(found)
    assert set(corners) <= set(found)
    if len(corners) > 2:
        for first, second in zip(corners, [*corners[1:], corners[0]], strict=True):
            assert all(turn(first, second, point) >= 0 for point in found)


@given(points)
def test_the_hull_of_a_hull_is_itself(found):
    assert find_hull(find_hull(found)) == find_hull(found)


def test_points_on_one_line_have_two_corners():
    assert find_hull([(0, 0), (1, 1), (2, 2), (2, 2)]) == [(0, 0), (2, 2)]
