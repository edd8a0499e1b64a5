"""Every error that NAVI raises on purpose, and texts made safe to show.

```text
NaviError
├── TableError          (ValueError)    a file or frame that cannot be read as a table
├── CorpusError         (ValueError)    a directory that is not a corpus, or not one this version reads
├── ConfigError         (ValueError)    a setting out of range, or settings that contradict each other
├── ModelError          (ValueError)    a model or backbone that cannot be loaded or does not fit
├── StorageError        (RuntimeError)  an object store or a cluster that cannot be reached, or refuses
├── TrainingError       (RuntimeError)  a run that cannot go on
│   └── TrainingInterrupted             a run that was asked to stop, and did
└── MissingExtraError   (ImportError)   an optional dependency that is not installed
```
"""

from __future__ import annotations

import re

# What a terminal acts on or hides: controls of both sets, changes of direction, other line ends, halves of pairs.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class NaviError(Exception):
    """The parent of every error that NAVI raises on purpose; the command line shows it as one line."""


class TableError(NaviError, ValueError):
    """A file or frame that cannot be read as a table."""


class CorpusError(NaviError, ValueError):
    """A directory that is not a corpus, or one that this version cannot read."""


class ConfigError(NaviError, ValueError):
    """A setting out of range, or settings that contradict each other."""


class ModelError(NaviError, ValueError):
    """A model or backbone that cannot be loaded, or does not fit what it is used with."""


class StorageError(NaviError, RuntimeError):
    """An object store, or a cluster, that cannot be reached, or refuses."""


class TrainingError(NaviError, RuntimeError):
    """A training run that cannot go on."""


class TrainingInterrupted(TrainingError):  # noqa: N818
    """A run that was asked to stop, and did, with a checkpoint saved; `exit_code` is what a shell expects."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + number


class MissingExtraError(NaviError, ImportError):
    """An optional dependency that is not installed; the message names the extra that brings it."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an extra: pip install 'navi-tables[{extra}]'.")
        self.extra = extra


def escape_controls(text: str) -> str:
    r"""Return a text with the characters that a terminal acts on visibly escaped; tabs and line feeds stay.

    >>> print(escape_controls(f"red {chr(27)}[31m, backwards {chr(0x202E)}."))
    red \x1b[31m, backwards \u202e.
    """
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
