"""A quick start: what the libraries below import, and no answer of a model needs, is put off."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

YOUNG = 100_000
"""A process with fewer objects has just begun: there is nothing of a user's yet that might become garbage."""


@contextmanager
def quick_imports() -> Iterator[None]:
    """Import, inside, with less to do.

    What an import makes stays, so looking for garbage in it finds none and takes a tenth of the time. And transformers
    imports SciPy's optimisers for one function, which only a loss for detecting objects calls.
    """
    with pause_collection(), put_off("scipy.optimize", "linear_sum_assignment"):
        yield


@contextmanager
def pause_collection() -> Iterator[None]:
    """Look for no garbage inside, nor later in what is there by then, if the process has just begun."""
    enabled, young = gc.isenabled(), len(gc.get_objects()) < YOUNG
    gc.disable()
    try:
        yield
    finally:
        if young:
            gc.freeze()
        if enabled:
            gc.enable()


@contextmanager
def put_off(module: str, function: str) -> Iterator[None]:
    """Let `from module import function`, inside, give one that imports the module when it is called."""
    if module in sys.modules:
        yield
        return
    standin = _StandIn(module, function)
    sys.modules[module] = standin
    try:
        yield
    finally:
        standin.leave()


class _StandIn(ModuleType):
    """Stands for a module that is not imported yet; whatever else is asked of it has the module imported."""

    def __init__(self, name: str, function: str) -> None:
        super().__init__(name)
        self._function = function

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")
        if name != self._function:
            return getattr(self.load(), name)

        def call(*args: Any, **kwargs: Any) -> Any:
            return getattr(self.load(), name)(*args, **kwargs)

        return call

    def load(self) -> ModuleType:
        """Return the module itself."""
        self.leave()
        return import_module(self.__name__)

    def leave(self) -> None:
        """Stand for the module no longer."""
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
