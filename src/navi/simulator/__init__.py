"""A simulated domain of films, rendered as many catalogues with different schemas, and its truth."""

from __future__ import annotations

from navi.simulator.catalogue import Catalogue, World, simulate
from navi.simulator.config import SimulatorConfig
from navi.simulator.files import write_catalogues
from navi.simulator.truth import Truth, columns_by_concept

__all__ = ["Catalogue", "SimulatorConfig", "Truth", "World", "columns_by_concept", "simulate", "write_catalogues"]
