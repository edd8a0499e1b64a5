from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from navi.verbs.startup import pause_collection, put_off

NOT_NEEDED = ("narwhals", "navi.training.trainer", "scipy.optimize", "scipy.sparse", "sklearn")
DETECTION = "transformers.loss.loss_for_object_detection"


@pytest.fixture
def heavy(tmp_path, monkeypatch):
    """The name of a module that can be imported, and is not yet."""
    (tmp_path / "heavy_solvers.py").write_text("LIMIT = 3\ndef double(number, *, by=2): return number * by\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "heavy_solvers"
    sys.modules.pop("heavy_solvers", None)


def test_a_function_that_is_put_off_has_its_module_imported_when_called(heavy):
    with put_off(heavy, "double"):
        from heavy_solvers import double
    assert heavy not in sys.modules
    assert (double(4), double(4, by=3)) == (8, 12)
    assert sys.modules[heavy].LIMIT == 3


def test_it_may_be_called_inside_too(heavy):
    with put_off(heavy, "double"):
        from heavy_solvers import double

        assert double(4) == 8
    assert sys.modules[heavy].LIMIT == 3


def test_whatever_else_is_asked_for_is_the_modules_own(heavy):
    with put_off(heavy, "double"):
        from heavy_solvers import LIMIT
    assert LIMIT == 3
    assert sys.modules[heavy].LIMIT == 3


def test_what_the_module_does_not_have_is_missed_as_always(heavy):
    with put_off(heavy, "double"), pytest.raises(ImportError, match="cannot import name 'treble'"):
        from heavy_solvers import treble  # noqa: F401


def test_a_module_that_was_imported_stays(heavy):
    import heavy_solvers

    with put_off(heavy, "double"):
        assert sys.modules[heavy] is heavy_solvers
    assert sys.modules[heavy] is heavy_solvers


def test_nothing_stands_in_after_an_import_that_failed(heavy):
    with pytest.raises(ZeroDivisionError), put_off(heavy, "double"):
        raise ZeroDivisionError
    assert heavy not in sys.modules


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_is_looked_for_afterwards_as_before(enabled):
    before = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        with pause_collection():
            assert not gc.isenabled()
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()


def test_opening_models_imports_nothing_that_no_answer_needs_and_breaks_nothing():
    code = f"""
import sys
import navi.verbs
print([name for name in {NOT_NEEDED!r} if name in sys.modules])
from {DETECTION} import linear_sum_assignment
print(linear_sum_assignment([[1, 0], [0, 1]])[1].tolist())
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == ["[]", "[1, 0]"]


def test_a_process_that_has_just_begun_never_looks_for_garbage_in_what_it_imported():
    told = subprocess.run(
        [sys.executable, "-c", "import gc, navi.verbs; print(gc.isenabled(), gc.get_freeze_count() > 10_000)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.split() == ["True", "True"]


def test_a_process_that_holds_much_keeps_its_garbage_collected(monkeypatch):
    monkeypatch.setattr("navi.verbs.startup.YOUNG", 0)
    before = gc.get_freeze_count()
    with pause_collection():
        pass
    assert gc.get_freeze_count() == before
