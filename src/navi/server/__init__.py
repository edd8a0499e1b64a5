"""HTTP: the service behind `navi serve` and the pages of `navi studio`, on one application."""

from navi.server.application import Access, listen, serve_application
from navi.server.service import Limits, make_service

__all__ = ["Access", "Limits", "listen", "make_service", "serve_application"]
