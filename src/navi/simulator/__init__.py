"""A simulated domain of films, rendered as many catalogues with different schemas, and its truth."""

from navi.simulator.world import Catalogue, SimulatorConfig, Truth, World, simulate, write_catalogues

__all__ = ["Catalogue", "SimulatorConfig", "Truth", "World", "simulate", "write_catalogues"]
