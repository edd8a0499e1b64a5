"""`navi demo`: the whole way on tables it makes itself, as a list of steps."""

from navi.cli.demo.steps import STEPS, Step
from navi.cli.demo.tour import Score, Tour
from navi.cli.demo.verb import demo

__all__ = ["STEPS", "Score", "Step", "Tour", "demo"]
