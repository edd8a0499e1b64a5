"""NAVI: one encoder learned from many tables of a domain that share no schema.

>>> import navi
>>> navi.Navi.from_pretrained  # doctest: +ELLIPSIS
<bound method Navi.from_pretrained of ...>
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from navi.version import VERSION

if TYPE_CHECKING:
    from navi.corpus import Corpus as Corpus
    from navi.corpus import prepare as prepare
    from navi.training import pretrain as pretrain
    from navi.verbs import Navi as Navi

__version__ = VERSION
_HOME = {
    "Corpus": "navi.corpus",
    "Navi": "navi.verbs",
    "prepare": "navi.corpus",
    "pretrain": "navi.training",
}
__all__ = ["Corpus", "Navi", "__version__", "prepare", "pretrain"]


def __getattr__(name: str) -> Any:
    """Import a public name's stage when it is first asked for, so that `import navi` stays quick."""
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'navi' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
