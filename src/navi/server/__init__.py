"""HTTP: the service behind `navi serve` and the pages of `navi studio`, on one application."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

from navi.server.application import Access, LateApplication, listen, serve_application

if TYPE_CHECKING:
    from navi.server.reconcile import Reconciler
    from navi.server.review import Review
    from navi.server.service import Limits, make_service
    from navi.server.studio import make_studio

__all__ = [
    "Access",
    "LateApplication",
    "Limits",
    "Reconciler",
    "Review",
    "listen",
    "make_service",
    "make_studio",
    "serve_application",
]
_LATER = {
    "Limits": "service",
    "Reconciler": "reconcile",
    "Review": "review",
    "make_service": "service",
    "make_studio": "studio",
}


def __getattr__(name: str) -> Any:
    """Import what needs a model only when it is asked for: an address is there before."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_import_module(f"{__name__}.{_LATER[name]}"), name)
