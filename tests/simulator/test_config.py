"""SimulatorConfig: what may be asked for."""

import pytest

from navi.errors import ConfigError
from navi.simulator import SimulatorConfig


@pytest.mark.parametrize("field", ["num_catalogues", "rows_per_catalogue", "num_rows", "num_films"])
def test_a_count_below_one_is_refused(field):
    with pytest.raises(ConfigError, match=f"{field} must be at least 1, got 0"):
        SimulatorConfig(**{field: 0})


@pytest.mark.parametrize("field", ["gap_rate", "typo_rate"])
def test_a_rate_out_of_range_is_refused(field):
    with pytest.raises(ConfigError, match=rf"{field} must lie between 0 and 0\.5, got 0\.6"):
        SimulatorConfig(**{field: 0.6})


def test_fewer_rows_than_catalogues_are_refused():
    with pytest.raises(ConfigError, match="give each catalogue a row, got 3 for 14 catalogues"):
        SimulatorConfig(num_rows=3)


def test_the_total_defaults_to_the_average_times_the_catalogues():
    assert SimulatorConfig(num_catalogues=3, rows_per_catalogue=50).total_rows == 150
    assert SimulatorConfig(num_catalogues=3, num_rows=7).total_rows == 7
