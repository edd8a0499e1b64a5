"""`navi serve` and `navi studio`: a model over HTTP for programs, and in the browser for people."""

from __future__ import annotations

import os
import secrets
import sys
import webbrowser
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import typer
from typer import Option

from navi.cli.app import Paths, Run, verb
from navi.cli.console import quote
from navi.errors import ConfigError, MissingExtraError, NaviError, escape_controls
from navi.settings import MATCH_THRESHOLD

if TYPE_CHECKING:
    from starlette.types import ASGIApp

TOKEN_VARIABLE = "NAVI_TOKEN"
KERNEL_CACHE = "ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64"
"""oneDNN keeps a compiled kernel for each of the last 1,024 shapes of a batch: memory that grows for hours, for no
speed."""
PATIENCE = 0.1
"""Seconds that a decision waits for what follows from it; the page shows the rest when it is there."""


@verb(
    "Serve",
    "navi studio feeds/",
    "navi studio feeds/ --model model --decisions decided.csv --no-browser",
    options="model device",
)
def studio(
    run: Run,
    paths: Paths,
    decisions: Path = Option(Path("decisions.csv"), metavar="FILE.csv", help="Where decisions are read and written."),
    labels: Path = Option(Path("labels.csv"), metavar="FILE.csv", help="Where labels of rows are read and written."),
    threshold: float = Option(MATCH_THRESHOLD, min=0.001, max=0.999, help="Probability from which columns match."),
    port: int = Option(0, min=0, max=65535, help="Port; 0 takes a free one."),
    browser: bool = Option(True, help="Open the browser."),
) -> None:
    """Review matches and links in the browser; decisions count at once, there and for `navi unify`."""
    try:
        from navi.server import Access, LateApplication, listen, serve_application
    except ModuleNotFoundError as error:
        raise MissingExtraError("navi studio", "studio") from error
    from navi.files import check_target, lock
    from navi.tables import find_sources

    screen = run.screen
    for file in (decisions, labels):
        if file.suffix.lower() != ".csv":
            raise ConfigError(f"Decisions and labels are kept as .csv, got {file}.")
        check_target(file, paths, overwrite=True)
    find_sources(paths)
    with lock(decisions), lock(labels):
        opened, address = listen("127.0.0.1", port)
        access = Access(token=secrets.token_urlsafe(24), cookie=f"navi-{opened.getsockname()[1]}")
        link = f"{address}/open?token={access.token}"
        screen.summarise(f"Open {link}", f"Decisions go to {decisions}, labels to {labels}. Ctrl-C stops.")
        screen.results.file.flush()
        if browser:  # one that runs in the terminal is waited for, and the server with it
            Thread(target=webbrowser.open, args=(link,), name="navi-browser", daemon=True).start()
        application = LateApplication(access)

        def load() -> ASGIApp:
            from navi.server.review import Review
            from navi.server.studio import make_studio

            review = Review(
                paths,
                decisions,
                labels=labels,
                model=run.model,
                device=run.device,
                threshold=threshold,
                patience=PATIENCE,
                report=application.report,
            )
            return make_studio(review, access)

        def start() -> None:
            try:
                application.start(load)
            except (NaviError, OSError) as error:  # the server goes on, for the page to say it too
                typer.echo(f"navi: {escape_controls(str(error))}", err=True)

        Thread(target=start, name="navi-review", daemon=True).start()
        serve_application(application, opened, patience=5)
    sys.stdout.flush()
    os._exit(0)  # threads that still compute would be waited for, for minutes


@verb(
    "Serve",
    "navi serve",
    "navi serve --model model --index films.index",
    "navi serve --reconcile films.csv",
    "NAVI_TOKEN=$(openssl rand -hex 32) navi serve --host 0.0.0.0",
    options="model device",
    needs_arguments=False,
)
def serve(
    run: Run,
    host: str = Option("127.0.0.1", help="Address to listen at; others than loopback need a token."),
    port: int = Option(8080, min=0, max=65535, help="Port; 0 takes a free one."),
    token_file: Path | None = Option(
        None, metavar="FILE", help="The token that requests must have.", show_default=f"${TOKEN_VARIABLE}"
    ),
    index: Path | None = Option(None, metavar="DIR", help="What `navi search --index` wrote, to search in."),
    reconcile: Path | None = Option(
        None, metavar="TABLE", help="A table whose rows OpenRefine is to find, at /reconcile."
    ),
    by: str | None = Option(None, metavar="COLUMN", help="The column that names the rows of --reconcile."),
    max_body: float = Option(16, min=0.001, metavar="MIB", help="Size of a request."),
    max_rows: int = Option(10_000, min=1, metavar="N", help="Rows of a request."),
    max_columns: int = Option(1_000, min=1, metavar="N", help="Columns of a request."),
    max_seconds: float = Option(60, min=0.1, metavar="S", help="Time for a request."),
    queue: int = Option(64, min=1, metavar="N", help="Requests at once; others get 429."),
) -> None:
    """Answer embed, match, name, impute, link and search over HTTP."""
    try:
        from navi.server import Access, listen, serve_application
        from navi.server.reconcile import Reconciler
        from navi.server.service import Limits, make_service
    except ModuleNotFoundError as error:
        raise MissingExtraError("navi serve", "serve") from error
    from navi.tables import read_table
    from navi.verbs import open_index

    os.environ.setdefault(*KERNEL_CACHE)
    screen = run.screen
    limits = Limits(
        body_bytes=round(max_body * (1 << 20)), rows=max_rows, columns=max_columns, seconds=max_seconds, queue=queue
    )
    access = Access(host=host, token=read_token(token_file))
    opened, address = listen(host, port)
    with screen.follow() as meter:
        navi = run.open_model(meter)
        searched = None if index is None else open_index(navi, index)
        reconciler = None if reconcile is None else Reconciler(read_table(reconcile), by)
    screen.summarise(f"Serving {quote(navi.folder)} at {address}, described at {address}/openapi.json. Ctrl-C stops.")
    if reconciler is not None:
        screen.summarise(f"OpenRefine takes {address}/reconcile, which finds rows by '{reconciler.name}'.")
    screen.results.file.flush()
    service = make_service(navi, limits=limits, access=access, index=searched, reconciler=reconciler)
    serve_application(service, opened, patience=limits.seconds)
    screen.summarise("Stopped: every request that was taken is answered.")


def read_token(file: Path | None) -> str | None:
    """Return the token of a file or, without one, of the environment; None where there is none."""
    if file is None:
        return os.environ.get(TOKEN_VARIABLE) or None
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"Cannot read the token in {file}: {error}.") from error
