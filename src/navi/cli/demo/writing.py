"""The demo's last steps: the map of segments, and the page of everything found."""

from __future__ import annotations

from navi.cli.demo.tour import Tour
from navi.cli.progress import show_progress
from navi.cli.render import count_things
from navi.errors import MissingExtraError


def draw_map(tour: Tour) -> None:
    """Place segments of some catalogues in a plane."""
    from navi.cli.demo.segments import map_segments

    with show_progress(tour.screen) as meter:
        meter.wait("Placing segments")
        tour.findings.segments = map_segments(tour.model, tour.corpus, seed=tour.seed)
    tour.screen.summarise(f"{count_things(len(tour.findings.segments.x), 'segment')} placed; the page shows them.")


def write_page(tour: Tour) -> None:
    """Write the page; where the packages that draw it are missing, what it is made of."""
    from navi.cli.demo.page import build_demo_page
    from navi.report import save_page, write_report

    page = build_demo_page(tour.findings)
    try:
        tour.screen.summarise(f"Open {write_report(page, tour.folder)} in a browser.")
    except MissingExtraError as error:
        save_page(page, tour.folder)
        tour.screen.summarise(f"{error} Then: navi report {tour.folder}")
