"""The command line: each verb a thin call of the library, and the only place that prints."""

from navi.cli import learn, ask, demo, serve, evaluate  # noqa: I001, the order of the verbs in the help
from navi.cli.app import app, main

__all__ = ["app", "ask", "demo", "evaluate", "learn", "main", "serve"]
