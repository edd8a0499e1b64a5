"""What the service and the studio share: who may ask, one form of errors, and a server that stops when it is done."""

from __future__ import annotations

import hmac
import html
import ipaddress
import logging
import signal
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import uvicorn
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request, cookie_parser
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from navi.errors import ConfigError, NaviError, escape_controls
from navi.server.bodies import JSON, write_json

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]", "::1")
SECURITY_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}
_log = logging.getLogger("navi.server")


def is_loopback(host: str) -> bool:
    """Return whether an address is of this machine alone.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, kw_only=True)
class Access:
    """Who may ask."""

    host: str = "127.0.0.1"
    """The address to listen at."""
    token: str | None = None
    """What a request must have as bearer token or cookie; None where all of this machine may ask."""
    cookie: str = "navi"
    """Name of the cookie."""

    def __post_init__(self) -> None:
        if self.token is None and not is_loopback(self.host):
            raise ConfigError(
                f"{self.host} can be reached from other machines: that needs a token. Put one into $NAVI_TOKEN."
            )
        if self.token is not None and not (len(self.token) >= 16 and self.token.isascii() and self.token.isprintable()):
            raise ConfigError("A token has at least 16 printable ASCII characters.")

    def allows(self, token: str | None) -> bool:
        """Return whether a request with this token may pass; the time that takes says nothing of the right one."""
        return self.token is None or (
            token is not None and hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())
        )

    def knows_host(self, header: str) -> bool:
        """Return whether a request was meant for this machine: pages of others could send their visitors here."""
        name = header.rsplit(":", 1)[0] if not header.endswith("]") else header
        return not is_loopback(self.host) or name in LOOPBACK_NAMES


class Gate:
    """Lets requests pass that may ask, and adds the headers that keep a browser from harm."""

    def __init__(self, app: ASGIApp, *, access: Access, open_paths: tuple[str, ...] = ()) -> None:
        self.app, self.access, self.open_paths = app, access, open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or have it answered."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                guarded = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    guarded.setdefault(name, value)
            await send(message)

        answer: ASGIApp = self.app
        if not self.access.knows_host(headers.get("host", "")):
            answer = answer_error(421, "This address is not served here.")
        elif scope["path"] not in self.open_paths and not self.access.allows(find_token(headers, self.access.cookie)):
            answer = answer_error(401, "A token is missing or wrong.", {"www-authenticate": "Bearer"})
        await answer(scope, receive, send_guarded)


def find_token(headers: Headers, cookie: str) -> str | None:
    """Return the token of a request: in its `Authorization`, or in the cookie of a page."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return token.strip()
    return cookie_parser(headers.get("cookie", "")).get(cookie)


async def read_bytes(request: Request, limit: int) -> bytes:
    """Return the body of a request; an error where it is longer than allowed."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise HTTPException(413, f"The body has more than {limit} bytes. Send less at a time.")
        parts.append(part)
    return b"".join(parts)


def answer_error(code: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error as every door gives it."""
    return Response(write_json({"error": escape_controls(text)}), code, headers, media_type=JSON)


async def answer_http_error(request: Request, error: Exception) -> Response:
    """Return what Starlette found wrong: an unknown path, a method that is not for it."""
    assert isinstance(error, HTTPException)
    return answer_error(error.status_code, error.detail, error.headers)


async def answer_failure(request: Request, error: Exception) -> Response:
    """Return that something went wrong here; what it was is logged, and not told to others."""
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return answer_error(500, "Something went wrong here; the log says what.")


class LateApplication:
    """Says what is being done until there is an application: that is imported and loaded while the server answers."""

    def __init__(self, access: Access) -> None:
        self.access, self.status, self.is_at_work = access, "Starting", True
        self.app: ASGIApp | None = None

    def start(self, load: Callable[[], ASGIApp]) -> None:
        """Load the application; what goes wrong is shown instead, and raised again."""
        try:
            self.app = load()
        except BaseException as error:
            is_known, self.is_at_work = isinstance(error, NaviError | OSError), False
            self.status = str(error) if is_known else f"A fault of this program: {error!r}. The terminal shows where."
            raise

    def report(self, status: str) -> None:
        """Take what is being done."""
        self.status = status

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have a request answered."""
        if scope["type"] != "http":
            return
        if self.app is not None:
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        token = find_token(request.headers, self.access.cookie) or request.query_params.get("token")
        allowed = self.access.allows(token) and self.access.knows_host(request.headers.get("host", ""))
        answer = self._show() if allowed else answer_error(401, "A token is missing or wrong.")
        await answer(scope, receive, send)

    def _show(self) -> Response:
        text = html.escape(escape_controls(self.status))
        waits = '<meta http-equiv="refresh" content="1">', f"<p>{text} …</p><progress aria-label='At work'></progress>"
        again, shown = waits if self.is_at_work else ("", f"<p>{text}</p>")
        return HTMLResponse(
            f'<!doctype html><html lang="en"><meta charset="utf-8">{again}<title>NAVI studio</title>'
            "<style>:root { color-scheme: light dark; font: 1rem system-ui; margin: 4rem; }</style>"
            f"<main><h1>{'One moment' if self.is_at_work else 'This cannot be shown'}</h1>{shown}</main>"
        )


def listen(host: str, port: int) -> tuple[socket.socket, str]:
    """Return a socket that listens, and its address as a browser takes it; port 0 takes a free one."""
    name = host.strip("[]")
    family = socket.AF_INET6 if ":" in name else socket.AF_INET
    try:
        opened = socket.create_server((name, port), family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"Cannot listen at {host}:{port}: {reason}. Give another --port, or 0 for a free one.") from (
            error
        )
    shown = f"[{name}]" if family == socket.AF_INET6 else name
    return opened, f"http://{shown}:{opened.getsockname()[1]}"


def serve_application(app: ASGIApp, opened: socket.socket, *, patience: float) -> None:
    """Answer requests until a signal comes, then finish what was taken, for as many seconds as `patience`."""
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=round(patience)
    )
    # The server raises the signal again when it is done; by then there is nothing left to stop.
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        uvicorn.Server(config).run(sockets=[opened])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
