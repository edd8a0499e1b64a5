"""The command line: each verb a thin call of the library, and the only place that prints."""

from navi.cli import learn, columns, rows, demo, serve, evaluate  # noqa: I001, the order of the verbs in the help
from navi.cli.app import app, main

__all__ = ["app", "columns", "demo", "evaluate", "learn", "main", "rows", "serve"]
