"""Cards: what a notebook shows of answers, with the parts and colours of the studio."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from navi.errors import escape_controls

if TYPE_CHECKING:
    from jinja2 import Environment


def make_pages(*packages: str) -> Environment:
    """Return the templates of some packages and the parts: what they show is escaped, and turns or hides no text."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader
    from markupsafe import Markup

    def finalize(value: Any) -> Any:
        return escape_controls(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    pages = Environment(
        loader=ChoiceLoader([*map(PackageLoader, packages), PackageLoader("navi.report", "template")]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=finalize,
    )
    pages.filters["percent"] = lambda share: "–" if share is None else f"{100 * share:.0f} %"
    pages.filters["breakable"] = lambda text: Markup("_<wbr>").join(escape_controls(text).split("_"))
    pages.filters["count"] = lambda number: f"{number:,}"
    return pages


@cache
def _load() -> tuple[Environment, str]:
    files = resources.files("navi.report") / "template"
    return make_pages(), "".join((files / name).read_text(encoding="utf-8") for name in ("base.css", "cards.css"))


def show_cards(kind: str, **content: Any) -> str:
    """Return cards of a kind as HTML that stands alone, wherever it is put: its style reaches nothing else."""
    pages, style = _load()
    return pages.get_template("cards.html").render(kind=kind, style=style, **content)
