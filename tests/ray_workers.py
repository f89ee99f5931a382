"""Workers that the tests of Ray send out."""

import os
import time
from pathlib import Path

import numpy as np

from ordbm.training.remote_ensemble import MemberGroup


class Probe:
    """Tells where it is."""

    def pid(self):
        return os.getpid()

    def told_once(self, value):
        return value

    def slept(self, seconds):
        time.sleep(seconds)
        return "woken"

    def failed(self):
        raise ValueError("as it was raised")

    def gone(self):
        os._exit(1)

    def numbered(self, number):
        self.numbers = [*getattr(self, "numbers", []), number]
        return self.numbers

    def halves(self, array):
        return array[: len(array) // 2], array[len(array) // 2 :]

    def mapped(self, array):
        """The file that the memory of an array is mapped from, and whether it may be written."""
        address = array.ctypes.data
        for line in Path("/proc/self/maps").read_text().splitlines():
            low, high = (int(end, 16) for end in line.split()[0].split("-"))
            if low <= address < high:
                return line.split(maxsplit=5)[-1], array.flags.writeable
        return "", array.flags.writeable

    def summed(self, *arrays):
        return np.sum(arrays, axis=0)


class Mortal(MemberGroup):
    """A group of members whose process dies in an epoch, once for each file that is there."""

    def epoch(self, number):
        for path in Path(os.environ["ORDBM_TEST_DEATHS"]).glob(f"{number}-*"):
            try:
                path.unlink()
            except FileNotFoundError:  # another was quicker
                continue
            os._exit(1)
        return super().epoch(number)
