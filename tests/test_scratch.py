"""Arrays in memory up to a limit, in mapped files beyond; nothing is left on the disk."""

import os
import subprocess
import sys

import numpy as np
import pytest

from ordbm.errors import CostError, SettingsError
from ordbm.runtime.memory import bytes_of, free_memory, memory_there_is
from ordbm.runtime.scratch import Scratch, is_mapped, mapped

MB = 2**20


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("8GB", 8 * 10**9),
        ("8 gb", 8 * 10**9),
        ("1.5GiB", 3 * 2**29),
        ("500MB", 5 * 10**8),
        (2**31, 2**31),
        (2e9, 2 * 10**9),
        ("2000000", 2 * 10**6),
    ],
)
def test_sizes_are_read_as_written(said, found):
    assert bytes_of(said) == found


@pytest.mark.parametrize("said", ["8 apples", "", "-1", -5, 0, "1kB", float("nan"), 1e300, "GB"])
def test_other_sizes_are_refused(said):
    with pytest.raises(SettingsError, match="memory="):
        bytes_of(said)


def test_the_default_is_part_of_what_is_free():
    assert 0 < bytes_of(None) < memory_there_is()
    assert free_memory() <= memory_there_is()


def test_room_is_in_memory_up_to_the_limit_and_mapped_beyond():
    scratch = Scratch(5 * MB)
    first, second = scratch.room(3 * MB, np.uint8), scratch.room((3, MB), np.uint8)
    assert not is_mapped(first)
    assert is_mapped(second)
    assert is_mapped(second[1, 5:9])
    assert second.shape == (3, MB)
    assert not second.any()
    second[2] = 7
    assert second.sum(dtype=int) == 7 * MB
    assert scratch.in_memory == 3 * MB
    del first
    assert scratch.in_memory == 0
    assert not is_mapped(scratch.room(3 * MB, np.uint8))


def test_small_arrays_are_never_files():
    scratch = Scratch(MB)
    kept = [scratch.room(1000) for _ in range(300)]
    assert not any(map(is_mapped, kept))


def test_an_array_outlives_its_scratch(tmp_path):
    array = Scratch(MB, tmp_path).copy_of(np.arange(MB))
    assert is_mapped(array)
    np.testing.assert_array_equal(array, np.arange(MB))
    assert not list(tmp_path.iterdir())  # without a name from the first moment on


def test_a_killed_process_leaves_no_file(tmp_path):
    code = (
        "import os, signal; from ordbm.runtime.scratch import mapped; "
        f"a = mapped((1000, 1000), 'f8', {str(tmp_path)!r}); a[:] = 1; "
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_an_error_before_anything_is_written(tmp_path):
    there_is = os.statvfs(tmp_path)
    with pytest.raises(CostError, match="TMPDIR"):
        mapped((there_is.f_blocks * there_is.f_frsize + 2**40,), np.uint8, tmp_path)


def test_a_folder_that_is_not_there_is_an_error_that_names_it(tmp_path):
    with pytest.raises(CostError, match="gone"):
        mapped((10,), np.uint8, tmp_path / "gone")


def test_nothing_takes_no_file(tmp_path):
    assert mapped((0, 5), np.int32, tmp_path).shape == (0, 5)
