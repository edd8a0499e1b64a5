"""The smallest convex polygon around some points."""

from __future__ import annotations

from collections.abc import Iterable

Point = tuple[float, float]


def find_hull(points: Iterable[Point]) -> list[Point]:
    """Return the corners of the hull, counter-clockwise; points on its sides are no corners.

    >>> find_hull([(0, 0), (2, 0), (2, 2), (0, 2), (1, 1), (1, 0)])
    [(0, 0), (2, 0), (2, 2), (0, 2)]
    """
    ordered = sorted(set(points))
    if len(ordered) < 3:
        return ordered
    return _walk(ordered)[:-1] + _walk(ordered[::-1])[:-1]


def _walk(points: list[Point]) -> list[Point]:
    """Return the lower half of the hull of points that are sorted, or the upper half if they are reversed."""
    corners: list[Point] = []
    for point in points:
        while len(corners) > 1 and _turn(corners[-2], corners[-1], point) <= 0:
            corners.pop()
        corners.append(point)
    return corners


def _turn(first: Point, second: Point, third: Point) -> float:
    """Twice the area of a triangle: above 0 where the way over its corners turns left."""
    return (second[0] - first[0]) * (third[1] - first[1]) - (second[1] - first[1]) * (third[0] - first[0])
