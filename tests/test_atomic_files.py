"""Files that are replaced whole: their modes, what killed writers leave, and odd places."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ordbm.runtime import atomic_files
from ordbm.runtime.atomic_files import atomic_file

HANGS = 900  # seconds: no limit of speed, only what hangs for ever takes so long


def write(path, content=b"new"):
    with atomic_file(path) as file:
        file.write(content)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def umask():
    """A function that sets it, for the length of a test."""
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


# -- modes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o660, 0o666, 0o400, 0o444, 0o755])
def test_the_mode_of_a_file_outlives_its_content(tmp_path, umask, mode):
    umask(0o027)
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(mode)
    write(path)
    assert path.read_bytes() == b"new"
    assert mode_of(path) == mode


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077, 0o002])
def test_a_new_file_has_what_the_umask_leaves(tmp_path, umask, mask):
    umask(mask)
    write(tmp_path / "a")
    assert mode_of(tmp_path / "a") == 0o666 & ~mask


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o604])
def test_while_it_is_written_nobody_else_can_read_it(tmp_path, umask, mode):
    umask(0)
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(mode)
    with atomic_file(path) as file:
        file.write(b"new")
        (temporary,) = (one for one in tmp_path.iterdir() if one != path)
        assert mode_of(temporary) & 0o077 & ~mode == 0


def test_a_mode_that_is_changed_meanwhile_is_kept_too(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(0o644)
    with atomic_file(path) as file:
        path.chmod(0o600)
        file.write(b"new")
    assert mode_of(path) == 0o600


def another_group():
    """A group that a file of ours may be given to: any for root, otherwise one that we are in."""
    if os.geteuid() == 0:
        return 54321
    return next((one for one in os.getgroups() if one != os.getegid()), os.getegid())


def test_owner_and_group_are_kept_where_that_is_permitted(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    os.chown(path, 54321 if os.geteuid() == 0 else -1, another_group())
    path.chmod(0o640)
    before = path.stat()
    write(path)
    after = path.stat()
    assert (after.st_uid, after.st_gid, after.st_mode) == (
        before.st_uid,
        before.st_gid,
        before.st_mode,
    )


def test_a_group_that_cannot_be_kept_hands_its_rights_to_no_other(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(0o664)

    def refused(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(atomic_files.os, "fchown", refused)
    write(path)
    assert mode_of(path) == 0o644


# -- what killed writers leave --------------------------------------------------------------------

WRITER = """
import os, signal, sys
from ordbm.runtime.atomic_files import atomic_file
with atomic_file(sys.argv[1]) as file:
    file.write(b"half" * 1000)
    file.flush()
    print("written", flush=True)
    if sys.stdin.readline() == "die\\n":
        os.kill(os.getpid(), signal.SIGKILL)
"""


def started_writer(path):
    """A process in the middle of writing `path`; a line on its stdin lets it go on, or die."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "written\n"
    return process


def test_the_next_writer_removes_what_a_killed_one_left(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    for _ in range(2):
        process = started_writer(path)
        process.communicate("die\n", timeout=HANGS)
        assert process.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"
    write(path)
    assert names(tmp_path) == ["a"]


def test_a_writer_that_lives_is_left_alone(tmp_path):
    path = tmp_path / "a"
    slow = started_writer(path)
    write(path)
    assert path.read_bytes() == b"new"
    assert len(names(tmp_path)) == 2
    slow.communicate("go on\n", timeout=HANGS)
    assert slow.returncode == 0
    assert path.read_bytes() == b"half" * 1000
    assert names(tmp_path) == ["a"]


def test_writers_in_one_process_leave_each_other_alone(tmp_path):
    with atomic_file(tmp_path / "a") as one:
        with atomic_file(tmp_path / "a") as two:
            two.write(b"two")
        one.write(b"one")
    assert (tmp_path / "a").read_bytes() == b"one"
    assert names(tmp_path) == ["a"]


def test_nothing_but_left_overs_of_the_same_file_is_removed(tmp_path):
    others = [
        ".a.tmp", ".a.0123abc.tmp", ".a.0123abcde.tmp", ".a.0123ABCD.tmp", "a.0123abcd.tmp",
        ".b.0123abcd.tmp", ".aa.0123abcd.tmp", ".a.0123abcd.tmp.gz", ".a.b.0123abcd.tmp",
    ]  # fmt: skip
    for name in others:
        (tmp_path / name).write_bytes(b"mine")
    (tmp_path / ".a.00000000.tmp").mkdir()
    (tmp_path / ".a.00000001.tmp").symlink_to(tmp_path / ".a.tmp")
    os.mkfifo(tmp_path / ".a.00000002.tmp")
    before = names(tmp_path)
    (tmp_path / ".a.0123abcd.tmp").write_bytes(b"left")
    write(tmp_path / "a")
    assert names(tmp_path) == sorted([*before, "a"])
    assert (tmp_path / ".a.tmp").read_bytes() == b"mine"


def test_a_left_over_of_somebody_else_is_theirs(tmp_path, monkeypatch):
    left = tmp_path / ".a.0123abcd.tmp"
    left.write_bytes(b"theirs")
    monkeypatch.setattr(atomic_files.os, "geteuid", lambda: left.stat().st_uid + 1)
    write(tmp_path / "a")
    assert left.read_bytes() == b"theirs"


def test_where_nothing_can_be_locked_nothing_is_removed(tmp_path, monkeypatch):
    left = tmp_path / ".a.0123abcd.tmp"
    left.write_bytes(b"left")
    monkeypatch.setattr(atomic_files, "lock", lambda _: False)
    write(tmp_path / "a")
    assert names(tmp_path) == [".a.0123abcd.tmp", "a"]


def test_a_name_that_is_taken_is_not_taken_over(tmp_path, monkeypatch):
    """Neither written to nor removed, though it be the first one tried."""
    taken = tmp_path / ".a.0123abcd.tmp"
    taken.symlink_to(tmp_path / "b")  # no left-over of ours
    tried = iter(["0123abcd", "89abcdef"])
    monkeypatch.setattr(atomic_files.secrets, "token_hex", lambda _: next(tried))
    write(tmp_path / "a")
    assert names(tmp_path) == [".a.0123abcd.tmp", "a"]


def test_one_that_is_cleared_away_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    """Between its making and its lock a temporary file looks like a left-over."""
    removed = []

    def late(handle, real=atomic_files.lock):
        if not removed:
            removed.extend(tmp_path.iterdir())
            removed[0].unlink()
        return real(handle)

    monkeypatch.setattr(atomic_files, "lock", late)
    write(tmp_path / "a")
    assert len(removed) == 1
    assert names(tmp_path) == ["a"]


# -- odd places -----------------------------------------------------------------------------------


def test_a_dangling_link_is_followed(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "a")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a").read_bytes() == b"new"


def odd_places(folder):
    (folder / "folder").mkdir()
    (folder / "file").touch()
    os.mkfifo(folder / "pipe")
    (folder / "round").symlink_to(folder / "about")
    (folder / "about").symlink_to(folder / "round")
    (folder / "astray").symlink_to(folder / "absent" / "a")
    return [
        (folder / "folder", "it is not an ordinary file"),
        (folder / "pipe", "it is not an ordinary file"),
        ("/dev/null", "it is not an ordinary file"),
        (folder / "round", "it is not an ordinary file"),
        (folder / "astray", "No such file or directory"),
        (folder / "absent" / "a", "No such file or directory"),
        (folder / "file" / "a", "Not a directory"),
        (folder / ("a" * 300), "File name too long"),
        (folder / ("a" * 250), "File name too long"),
    ]


def test_odd_places_are_refused_and_left_as_they_are(tmp_path):
    places = odd_places(tmp_path)
    before = names(tmp_path)
    for path, words in places:
        with pytest.raises(OSError, match=words):
            write(path)
        assert names(tmp_path) == before
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_a_folder_that_vanishes_meanwhile(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()

    def write_while_it_goes():
        with atomic_file(folder / "a"):
            folder.rename(tmp_path / "elsewhere")

    with pytest.raises(FileNotFoundError):
        write_while_it_goes()
    assert [one.suffix for one in (tmp_path / "elsewhere").iterdir()] == [".tmp"]


def test_a_file_that_becomes_a_folder_meanwhile(tmp_path):
    def write_while_it_does():
        with atomic_file(tmp_path / "a"):
            (tmp_path / "a").mkdir()

    with pytest.raises(OSError, match="not an ordinary file"):
        write_while_it_does()
    assert names(tmp_path) == ["a"]


FULL = """
import resource, signal, sys
from ordbm.runtime.atomic_files import atomic_file
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    with atomic_file(sys.argv[1]) as file:
        file.write(bytes(1_000_000))
except OSError as error:
    print(error.strerror)
"""


def test_a_write_that_the_system_refuses_leaves_the_old_file_alone(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "File too large\n"
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a"]
