"""The command line: one verb a module, each a thin call of the library, and the only place that prints."""

from navi.cli.app import app, main

__all__ = ["app", "main"]
