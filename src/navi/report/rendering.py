"""One HTML page from a page's content: nothing is loaded from elsewhere, and its own scripts alone may run."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from navi.errors import MissingExtraError
from navi.report.cells import show_table
from navi.report.charts import Drawing, draw, import_altair
from navi.report.figures import Figure
from navi.report.page import Page
from navi.version import VERSION

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

TEMPLATE = resources.files("navi.report") / "template"
"""Where the page's frame, its look and its scripts are."""


def render_page(page: Page) -> str:
    """Return the page as HTML."""
    scripts = [read_template("page.js")]
    if any(isinstance(item, Figure) for section in page.sections for item in section.items):
        scripts += [bundle_vega(), read_template("figures.js")]
    style = read_template("page.css")
    return (
        make_environment()
        .get_template("page.html")
        .render(page=page, style=style, scripts=scripts, policy=make_policy(style, scripts), version=VERSION)
    )


@cache
def bundle_vega() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script, of the version that Altair writes for."""
    try:
        import vl_convert
    except ImportError as error:
        raise MissingExtraError("Drawing the figures of a report", "report") from error
    wanted = ".".join(import_altair().SCHEMA_VERSION.lstrip("v").split(".")[:2])
    known = vl_convert.get_vegalite_versions()
    version = wanted if wanted in known else known[-1]
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=version)
    # Kept to itself: the bundle's own names are short ones and many.
    return f"(() => {{{_close_tags(bundle)}\n}})();"


def read_template(name: str) -> str:
    """Return a file of the page's frame."""
    return (TEMPLATE / name).read_text(encoding="utf-8")


def make_policy(style: str, scripts: list[str]) -> str:
    """Return the page's security policy: these scripts and this style by their hashes, and no request at all."""
    allowed = " ".join(_hash(script) for script in scripts)
    return f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {allowed}"


def make_environment() -> Environment:
    """Return the templates; whatever they show is escaped."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(read_template),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(paragraphs=split_paragraphs, code=mark_code, kind=name_kind)
    environment.filters.update(table=show_table, drawing=draw, data=embed_data)
    return environment


def split_paragraphs(text: str) -> list[Markup]:
    """Return the paragraphs of a text; what stands between backticks is code."""
    return [mark_code(part) for part in re.split(r"\n\s*\n", text.strip()) if part]


def mark_code(text: str) -> Markup:
    """Return a text with its code marked.

    >>> mark_code("type `a < b`")
    Markup('type <code>a &lt; b</code>')
    """
    from markupsafe import Markup, escape

    pieces = re.split(r"`([^`]+)`", text)
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if place % 2 else escape(piece) for place, piece in enumerate(pieces)
    )


def embed_data(drawing: Drawing) -> Markup:
    """Return a specification as JSON that may stand inside a script tag whatever its texts are."""
    from markupsafe import Markup

    text = json.dumps(drawing.spec, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))


def _close_tags(script: str) -> str:
    return script.replace("</script", "<\\/script")


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def name_kind(item: object) -> str:
    """Return what kind of thing an item is."""
    return type(item).__name__
