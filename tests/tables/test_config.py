import pytest

from navi.errors import ConfigError
from navi.tables import ReadConfig


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"chunk_rows": 0}, "chunk_rows must be at least 1, got 0"),
        ({"max_family": 0}, "max_family must be at least 1, or None to keep all, got 0"),
        ({"delimiter": "::"}, "delimiter must be one character, .* got '::'"),
        ({"delimiter": '"'}, "delimiter must be one character"),
        ({"encoding": "klingon"}, "encoding 'klingon' is no text encoding"),
        ({"encoding": "base64"}, "encoding 'base64' is no text encoding"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        ReadConfig(**settings)


def test_a_family_without_limit_is_allowed():
    assert ReadConfig(max_family=None).max_family is None
