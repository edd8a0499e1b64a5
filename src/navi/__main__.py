"""Entry point of the `navi` command and of `python -m navi`."""

from __future__ import annotations

from navi.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
