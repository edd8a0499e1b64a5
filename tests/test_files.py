"""What is written appears whole or not at all, wherever its writer is killed, and only one process writes at a time."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from navi import files
from navi.errors import ConfigError, CorpusError
from navi.files import append_line, check_target, digest_sample, lock, read_json, write_folder, write_json

WATCHED = ("open", "os.", "shutil.", "tempfile.")


def run_and_kill_at(number: int, work) -> bool:
    """Do work in a process of its own, killed at the so-manieth call of the system; return whether it came so far."""
    child = os.fork()
    if child == 0:
        left = number

        def count(event: str, _: object) -> None:
            nonlocal left
            if event.startswith(WATCHED):
                left -= 1
                if left < 0:
                    signal.raise_signal(signal.SIGKILL)

        try:
            sys.addaudithook(count)
            work()
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1] == signal.SIGKILL


def list_all(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def read_folder(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def fill(target: Path, text: str) -> None:
    with write_folder(target) as aside:
        (aside / "one").write_text(text)
        (aside / "two").write_text(text)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_folder_is_old_or_new_wherever_its_writer_is_killed_and_the_next_one_leaves_nothing(tmp_path):
    target, number = tmp_path / "old", 0  # as what is moved away might be called
    fill(target, "old")
    while run_and_kill_at(number, lambda: fill(target, "new")):
        files.remove_leftovers(tmp_path)  # what every reader of a folder does that is not there
        assert read_folder(target) in ({"one": "old", "two": "old"}, {"one": "new", "two": "new"})
        fill(target, "old")
        assert list_all(tmp_path) == ["old"]
        number += 1
    assert number > 10
    assert read_folder(target) == {"one": "new", "two": "new"}


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_file_is_old_or_new_wherever_its_writer_is_killed_and_the_next_one_leaves_nothing(tmp_path):
    target, number = tmp_path / "file.json", 0
    write_json(target, {"text": "old"})
    while run_and_kill_at(number, lambda: write_json(target, {"text": "new"}, checksum=True)):
        assert read_json(target, CorpusError, "")["text"] in ("old", "new")
        write_json(tmp_path / "other.json", {})  # of another file in the same place
        assert list_all(tmp_path) == ["file.json", "other.json"]
        write_json(target, {"text": "old"})
        number += 1
    assert number > 5


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_lock_outlives_no_process(tmp_path):
    def hold() -> None:
        with lock(tmp_path / "place"):
            signal.raise_signal(signal.SIGKILL)

    assert run_and_kill_at(1000, hold)
    assert list_all(tmp_path) == [".navi-lock-place"]
    with lock(tmp_path / "place"):
        pass
    assert list_all(tmp_path) == []


def test_a_second_process_is_told_who_is_at_work(tmp_path):
    with lock(tmp_path, inside=True):
        message = rf"is being written by process {os.getpid()} on .+\. Wait until it has"
        with pytest.raises(ConfigError, match=message), lock(tmp_path, inside=True):
            pass
        assert files.was_locked(tmp_path)
    assert list_all(tmp_path) == []


def test_without_locks_of_the_file_system_the_process_number_tells(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "fcntl", None)
    host = files._name_owner().partition("@")[2]
    for owner, is_free in ((f"{os.getppid()}@{host}", False), (f"4194305@{host}", True), ("1@elsewhere", False)):
        (tmp_path / ".navi-lock").write_text(owner)
        if is_free:
            with lock(tmp_path, inside=True):
                pass
            continue
        message = f"written by process {owner.partition('@')[0]} on"
        with pytest.raises(ConfigError, match=message), lock(tmp_path, inside=True):
            pass


@pytest.mark.parametrize("name", [".navi-lock-file", ".navi-1@elsewhere-x", ".navi-lock-other"])
def test_a_pipe_of_a_locks_name_is_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    for _ in range(2):  # what clears away removes it
        with suppress(ConfigError), lock(tmp_path / "file"):
            write_json(tmp_path / "file", {})
        write_json(tmp_path / "file", {})
    assert list_all(tmp_path) == ["file"]


def test_what_another_process_is_writing_is_left_alone(tmp_path):
    with write_folder(tmp_path / "one") as one:
        with write_folder(tmp_path / "two") as two:
            (two / "file").touch()
        (one / "file").touch()
    assert list_all(tmp_path) == ["one", "two"]


def test_a_link_is_replaced_and_what_it_leads_to_is_not(tmp_path):
    (tmp_path / "target").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_json(tmp_path / "link", {})
    assert (tmp_path / "target").read_text() == "mine"
    assert not (tmp_path / "link").is_symlink()


def test_a_folder_that_came_meanwhile_is_not_replaced_unasked(tmp_path):
    def write_meanwhile() -> None:
        with write_folder(tmp_path / "new", overwrite=False):
            (tmp_path / "new").mkdir()
            (tmp_path / "new" / "theirs").touch()

    with pytest.raises(FileExistsError, match=r"exists: '[^>]*/new'$"):
        write_meanwhile()
    assert [*list_all(tmp_path), *list_all(tmp_path / "new")] == ["new", "theirs"]


def test_what_is_there_or_is_read_is_refused(tmp_path):
    file = tmp_path / "file.csv"
    check_target(file, overwrite=False)
    file.touch()
    (tmp_path / "link.csv").symlink_to(file)
    check_target(file, overwrite=True)
    with pytest.raises(ConfigError, match=r"file\.csv exists\. Replace it with --overwrite, or give another name"):
        check_target(file, overwrite=False)
    with pytest.raises(ConfigError, match=r"link\.csv: it is what is read"):
        check_target(tmp_path / "link.csv", [tmp_path / "*.csv"], overwrite=True)
    with pytest.raises(ConfigError, match="it is a folder"):
        check_target(tmp_path, overwrite=True)
    with pytest.raises(ConfigError, match="there is no folder"):
        check_target(tmp_path / "no" / "out.csv", overwrite=True)
    with pytest.raises(ConfigError, match=r"out\.csv: it would lie among the tables of"):
        check_target(tmp_path / "out.csv", [tmp_path], overwrite=True)


def test_every_change_of_json_with_a_checksum_is_seen(tmp_path):
    file = tmp_path / "file.json"
    write_json(file, {"tables": ["é", 2], "rows": {}}, checksum=True)
    written = file.read_bytes()
    assert read_json(file, CorpusError, "") == {"tables": ["é", 2], "rows": {}}
    for place in range(len(written)):
        file.write_bytes(written[:place] + bytes([written[place] ^ 1]) + written[place + 1 :])
        try:
            found = read_json(file, CorpusError, "Make it again.")
        except CorpusError:
            continue
        assert (found["tables"], found["rows"]) == (["é", 2], {})  # it was the checksum's own name


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[" * 100_000, "recursion"),
        ('{"a": 1', "Cannot read"),
        ("7", "found int"),
        ('{"a": ' + "9" * 5000 + "}", "limit"),
    ],
)
def test_json_that_is_none_is_one_line(tmp_path, content, message):
    (tmp_path / "file.json").write_text(content)
    with pytest.raises(CorpusError, match=message):
        read_json(tmp_path / "file.json", CorpusError, "")


def test_a_full_disk_is_an_error_that_names_the_file(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(OSError, match=r"big\.json") as caught:
            write_json(tmp_path / "big.json", ["text"] * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.errno == errno.EFBIG
    assert list_all(tmp_path) == []


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_lines_of_several_processes_are_all_there(tmp_path):
    file, children = tmp_path / "lines.jsonl", []
    file.write_text('{"cut off')
    for name in range(3):
        child = os.fork()
        if child == 0:
            for number in range(50):
                append_line(file, json.dumps({"name": name, "number": number, "text": "x" * 20_000}))
            os._exit(0)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(lines) == len({(line["name"], line["number"]) for line in lines}) == 150


def test_a_change_in_the_pieces_of_a_large_file_that_are_read_is_seen(tmp_path):
    file = tmp_path / "large"
    file.write_bytes(bytes(files.SAMPLED_BYTES + 5))
    before = digest_sample(file)
    for place in (0, files.SAMPLED_BYTES // 2, files.SAMPLED_BYTES + 4):
        content = bytearray(files.SAMPLED_BYTES + 5)
        content[place] = 1
        file.write_bytes(content)
        assert digest_sample(file) != before
