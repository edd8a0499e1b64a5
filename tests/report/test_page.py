from __future__ import annotations

import pytest

from navi.errors import ConfigError
from navi.report import Code, Page, Section


def test_lists_become_tuples():
    assert Page("t", "l", [Section("s", "", [Code("c")])]) == Page("t", "l", (Section("s", "", (Code("c"),)),))


def test_a_section_shows_only_what_a_page_knows():
    with pytest.raises(ConfigError, match="Section 's' cannot show a dict"):
        Section("s", "", ({"kind": "Table"},))
