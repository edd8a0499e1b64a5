"""Tests of the script that finds and runs the documentation's blocks."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

PAGE = """
# A page

```python
x = 2
```

<!-- not run: needs a GPU -->
```sh
navi pretrain corpus -o model
```

```console
$ navi match --model model a.csv \\
    b.csv
 name   score
 ─────  ─────
 title   0.93
$ ls
a.csv
```
"""


@pytest.fixture
def blocks(docs, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    return docs.find_blocks(page)


def test_blocks_have_their_language_their_place_and_why_they_are_not_run(blocks):
    assert [(block.language, block.line, block.reason) for block in blocks] == [
        ("python", 4, None),
        ("sh", 9, "needs a GPU"),
        ("console", 13, None),
    ]
    assert blocks[0].text == "x = 2\n"


def test_commands_and_their_outputs_are_separated_and_a_table_is_known_by_its_head(docs, blocks):
    first, second = docs.split_commands(blocks[2])
    assert first.text == "navi match --model model a.csv \\\n    b.csv"
    assert first.shown == [" name   score", " ─────  ─────", " title   0.93"]
    assert (second.text, second.shown) == ("ls", ["a.csv"])
    assert docs.find_headings(first.shown) == [" name   score"]


def test_comments_and_empty_lines_of_a_shell_block_are_no_commands(docs, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```sh\n# first\n\nls\n```\n", encoding="utf-8")
    assert [command.text for command in docs.split_commands(docs.find_blocks(page)[0])] == ["ls"]


def test_python_blocks_of_a_page_share_their_names(docs, blocks, tmp_path):
    page = docs.Page(lambda command: command)
    page.run(blocks[0])
    blocks[0].lines = ["print(x + 1)"]
    assert page.run(blocks[0]) == ["3\n"]


def test_a_session_whose_answer_is_wrong_is_an_error(docs, tmp_path):
    file = tmp_path / "page.md"
    file.write_text("```pycon\n>>> 1 + 1\n3\n```\n", encoding="utf-8")
    with pytest.raises(AssertionError, match=r"Expected:\s+3\s+Got:\s+2"):
        docs.Page(lambda command: command).run(docs.find_blocks(file)[0])


def test_outputs_are_written_below_their_commands(docs, tmp_path):
    file, world = tmp_path / "page.md", tmp_path / "world"
    world.mkdir()
    (world / "a.txt").write_text("one\n")
    text = "```console\n$ cat a.txt\nold\n$ echo two\n```\n\n```python\nprint(3)\n```\n\n```text\n```\n"
    file.write_text(text, encoding="utf-8")
    docs.write_outputs(file, world)
    assert file.read_text(encoding="utf-8") == text.replace("old\n", "one\n").replace("two\n", "two\ntwo\n").replace(
        "```text\n", "```text\n3\n"
    )


def test_white_space_around_an_output_is_dropped(docs):
    assert docs.tidy("   \n\n  a  \n\nb \n   \n") == ["  a", "", "b"]


@dataclass(frozen=True, kw_only=True)
class ExampleConfig:
    """Settings to be shown in a table."""

    share: float | None = None
    """Between 0 | 1; None
    for none."""
    name: str
    """What it is called."""


def test_a_table_of_settings_has_defaults_and_meanings(docs):
    assert docs.tabulate_fields(ExampleConfig).splitlines()[2:] == [
        "| `share` | `None` | Between 0 \\| 1; None for none. |",
        "| `name` |  | What it is called. |",
    ]
