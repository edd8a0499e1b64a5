"""HTTP: the service behind `navi serve` and the pages of `navi studio`, on one application.

What is here is quick to import, so that an address is there at once; `navi.server.service`, `studio` and `review` need
a model.
"""

from navi.server.application import Access, LateApplication, listen, serve_application

__all__ = ["Access", "LateApplication", "listen", "serve_application"]
