from __future__ import annotations

import json

from navi.cli.console import WIDTH_WITHOUT_TERMINAL, Screen


def test_an_answer_goes_to_stdout_and_a_note_to_stderr(capsys):
    screen = Screen()
    screen.answer("an answer")
    screen.note("a note")
    assert capsys.readouterr() == ("an answer\n", "a note\n")


def test_quiet_keeps_the_answer_alone(capsys):
    screen = Screen(quiet=True)
    screen.answer("an answer")
    screen.summarise("a summary")
    screen.note("a note")
    assert capsys.readouterr() == ("an answer\n", "")


def test_json_has_stdout_for_itself(capsys):
    screen = Screen(as_json=True)
    screen.answer("an answer")
    screen.summarise("a summary")
    screen.answer_json({"name": "Søren [b]"})
    assert json.loads(capsys.readouterr().out) == {"name": "Søren [b]"}


def test_no_json_where_none_is_wanted(capsys):
    Screen().answer_json({})
    assert capsys.readouterr().out == ""


def test_what_looks_like_markup_is_shown_as_it_is(capsys):
    Screen().answer("[bold]x[/bold] :smile: [/]")
    assert capsys.readouterr().out == "[bold]x[/bold] :smile: [/]\n"


def test_without_a_terminal_lines_are_wide_and_plain(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    screen = Screen()
    assert screen.results.width == WIDTH_WITHOUT_TERMINAL
    screen.answer("1.5 'text' https://example.org")
    assert "\x1b" not in capsys.readouterr().out


def test_the_width_that_a_user_sets_is_kept(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert Screen().results.width == 60


def test_of_several_processes_the_first_alone_speaks(capsys, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    for screen in (Screen(), Screen(as_json=True)):
        screen.answer("an answer")
        screen.note("a note")
        screen.answer_json({})
    assert capsys.readouterr() == ("", "")
