"""The container: what goes in comes out, faults are named, a write happens whole or not at all."""

import json
import os
import pickle
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load_file, save_file

from ordbm.errors import ModelFileError
from ordbm.persistence import container, migrations
from ordbm.persistence.container import FORMAT, read_container, write_container
from ordbm.runtime import atomic_files as files

HEADER = {"name": "naïve \x00 \ud800", "numbers": [1, -0.0, 1e300], "none": None}
ARRAYS = {
    "long": np.arange(6, dtype=np.int64).reshape(2, 3),
    "odd": np.arange(5, dtype=np.uint8),
    "half": np.array([[1.5], [np.nan]], np.float16),
    "none": np.zeros((0, 3), np.float32),
    "scalar": np.array(2.5),
    "flags": np.array([True, False, True]),
}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.ordbm"
    write_container(path, "model", HEADER, ARRAYS)
    return path


def same(left, right):
    return (
        left.dtype == right.dtype
        and left.shape == right.shape
        and (left.tobytes() == right.tobytes())
    )


def test_header_and_arrays_come_back(file):
    header, arrays = read_container(file, "model")
    assert header == HEADER
    assert arrays.keys() == ARRAYS.keys()
    assert all(same(arrays[name], ARRAYS[name]) for name in ARRAYS)
    assert all(array.flags.aligned and array.flags.writeable for array in arrays.values())


finite_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
any_array = hnp.arrays(
    st.sampled_from([bool, "i1", "u1", "<i2", ">i4", "i8", "u8", "f2", "f4", ">f8"]),
    hnp.array_shapes(min_dims=0, min_side=0, max_side=4),
)


@given(
    st.dictionaries(st.text(), finite_json, max_size=4),
    st.dictionaries(st.text().filter(lambda name: name != "__metadata__"), any_array, max_size=4),
)
def test_any_json_and_any_arrays_come_back(tmp_path_factory, header, arrays):
    path = tmp_path_factory.getbasetemp() / "any.ordbm"
    write_container(path, "checkpoint", header, arrays)
    found_header, found = read_container(path, "checkpoint")
    assert json.dumps(found_header) == json.dumps(header)
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert same(found[name], array.astype(array.dtype.newbyteorder("=")))


def test_views_in_any_order_are_stored_as_they_read(tmp_path):
    whole = np.arange(24.0).reshape(4, 6)
    views = {"fortran": whole.T, "strided": whole[::2, ::-3], "broadcast": np.broadcast_to(3, 5)}
    write_container(tmp_path / "a", "model", {}, views)
    _, found = read_container(tmp_path / "a", "model")
    assert all(np.array_equal(found[name], views[name]) for name in views)


def test_it_is_a_safetensors_file(file):
    found = load_file(file)
    assert all(same(found[name], ARRAYS[name]) for name in ARRAYS)


def test_the_same_content_gives_the_same_bytes(file, tmp_path):
    again = tmp_path / "again"
    write_container(again, "model", HEADER, dict(reversed(ARRAYS.items())))
    assert again.read_bytes() == file.read_bytes()


def test_every_altered_bit_is_noticed(file):
    whole = file.read_bytes()
    for place in range(len(whole)):
        altered = bytearray(whole)
        altered[place] ^= 1 << place % 8
        file.write_bytes(altered)
        with pytest.raises(ModelFileError, match=r"a\.ordbm"):
            read_container(file, "model")


def test_every_truncation_and_any_addition_is_noticed(file):
    whole = file.read_bytes()
    for part in [*(whole[:size] for size in range(len(whole))), whole + b"\0", b" " + whole]:
        file.write_bytes(part)
        with pytest.raises(ModelFileError, match=r"a\.ordbm"):
            read_container(file, "model")


def foreign_files(folder):
    """(file, words of its error) of all kinds of files that are none of ours."""
    zipped = folder / "zipped"
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("a.txt", "hello")
    npz = folder / "arrays.npz"
    np.savez(npz, a=np.zeros(3))
    pickled = folder / "pickled"
    pickled.write_bytes(pickle.dumps({"a": 1}))
    text = folder / "text.csv"
    text.write_text("user,item,rating\n1,2,3\n")
    tensors = folder / "tensors"
    save_file({"a": np.zeros(3)}, tensors)
    empty = folder / "empty"
    empty.touch()
    short = folder / "short"
    short.write_bytes(b"\x05\0\0\0")
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    return [
        (zipped, "is a zip archive, not an ordbm model file"),
        (npz, "is a zip archive"),
        (pickled, "is a pickle"),
        (text, "is not an ordbm model file"),
        (tensors, "is a safetensors file, but not one of ordbm's"),
        (empty, "is empty"),
        (short, "is incomplete"),
        (folder, "is a folder"),
        (folder / "absent", "does not exist"),
        (pipe, "is not an ordinary file"),
    ]


def test_foreign_files_are_named_for_what_they_are(tmp_path):
    for path, words in foreign_files(tmp_path):
        with pytest.raises(ModelFileError) as caught:
            read_container(path, "model")
        assert str(caught.value).startswith(f"{str(path)!r} {words}")
        assert str(path) in str(caught.value)


def test_places_that_cannot_be_read_are_named(tmp_path):
    (tmp_path / "astray").symlink_to(tmp_path / "absent")
    (tmp_path / "round").symlink_to(tmp_path / "round")
    (tmp_path / "file").touch()
    for path, words in (
        (tmp_path / "astray", "does not exist: check the name"),
        (tmp_path / "round", "Too many levels of symbolic links"),
        (tmp_path / "file" / "below", "Not a directory"),
        (tmp_path / ("a" * 300), "File name too long"),
        ("/dev/null", "is not an ordinary file"),
        ("a\0b", "embedded null byte"),
    ):
        with pytest.raises(ModelFileError, match=words) as caught:
            read_container(path, "model")
        assert repr(str(path)) in str(caught.value)


def test_a_file_that_may_not_be_read_is_named(file, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(container.os, "open", refuse)
    with pytest.raises(ModelFileError, match=r"cannot read .*a\.ordbm.*: Permission denied"):
        read_container(file, "model")


def test_a_pickle_is_never_run(tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    (tmp_path / "bomb").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ModelFileError):
        read_container(tmp_path / "bomb", "model")
    assert not (tmp_path / "ran").exists()


def test_one_kind_is_not_the_other(file):
    with pytest.raises(ModelFileError, match="is a model, and a checkpoint is needed here"):
        read_container(file, "checkpoint")


def test_a_newer_format_asks_for_an_upgrade(file, monkeypatch):
    monkeypatch.setitem(FORMAT, "model", 2)
    write_container(file, "model", HEADER, ARRAYS)
    monkeypatch.setitem(FORMAT, "model", 1)
    with pytest.raises(ModelFileError, match=r"newer ordbm \(format 2; .* up to 1\): upgrade"):
        read_container(file, "model")


def raw_container(path, layout, data=b"", head_size=None):
    """A safetensors file by hand, right or wrong."""
    head = layout if isinstance(layout, bytes) else json.dumps(layout).encode()
    size = len(head) if head_size is None else head_size
    path.write_bytes(size.to_bytes(8, "little") + head + data)


DEEP = 100_000


@pytest.mark.parametrize(
    "layout",
    [
        {"a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}},
        {"a": {"dtype": "F32", "shape": [2**62, 4], "data_offsets": [0, 0]}},
        {"a": {"dtype": "F32", "shape": [0, 2**62], "data_offsets": [0, 0]}},
        {"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}},
        {"a": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F4", "shape": [8], "data_offsets": [0, 4]}},
        {"a": {"dtype": "O", "shape": [1], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}},
        {"a": {"dtype": "F32", "shape": [1] * 200, "data_offsets": [0, 4]}},
        {"a": None},
        [],
        b"{",
        b'{"a":' * DEEP,
        b'{"__metadata__":{"ordbm":5}}',
        {"__metadata__": {"ordbm": ""}},
        {"__metadata__": {"ordbm": "[" * DEEP}},
        {"__metadata__": {"ordbm": "1" * DEEP}},
        {"__metadata__": {"ordbm": '{"kind": NaN}'}},
        {"__metadata__": {"ordbm": '{"kind": []}'}},
        {"__metadata__": {"ordbm": '{"kind":"model","format":1,"header":{},"sha256":"00"}'}},
        {"__metadata__": {"ordbm": '{"kind":"model","format":true,"header":{},"sha256":""}'}},
        {"__metadata__": {"ordbm": '{"kind":"model","format":0,"header":{},"sha256":""}'}},
        {"__metadata__": {"ordbm": '{"kind":"song","format":1,"header":{},"sha256":""}'}},
    ],
    ids=lambda layout: (layout if isinstance(layout, bytes) else repr(layout).encode())[:80],
)
def test_hostile_headers_are_refused(tmp_path, layout):
    if isinstance(layout, dict):
        metadata = '{"kind":"model","format":1,"header":{},"sha256":""}'
        layout = {"__metadata__": {"ordbm": metadata}} | layout
    raw_container(tmp_path / "a", layout, bytes(4))
    with pytest.raises(ModelFileError):
        read_container(tmp_path / "a", "model")


@pytest.mark.parametrize("size", [0, 1, 2**31, 2**40, 2**63, 2**64 - 1])
def test_absurd_header_sizes_are_refused(tmp_path, size):
    raw_container(tmp_path / "a", {"__metadata__": {}}, head_size=size)
    with pytest.raises(ModelFileError):
        read_container(tmp_path / "a", "model")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, object()])
def test_what_json_cannot_hold_is_refused_before_anything_is_written(file, value):
    before = file.read_bytes()
    with pytest.raises(ModelFileError, match="header of a model file cannot be stored"):
        write_container(file, "model", {"a": value}, {})
    assert file.read_bytes() == before


@pytest.mark.parametrize("array", [np.array(["a"]), np.array([None]), np.array([1j])])
def test_arrays_of_other_types_are_refused(tmp_path, array):
    with pytest.raises(ModelFileError, match=r"array 'x' of type .* cannot be stored"):
        write_container(tmp_path / "a", "model", {}, {"x": array})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("stage", ["fsync", "replace", "write"])
@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(file, monkeypatch, stage, fault):
    before = file.read_bytes()

    def fail(*_):
        raise fault

    if stage == "fsync":
        monkeypatch.setattr(files.os, "fsync", fail)
    elif stage == "replace":
        monkeypatch.setattr(files.Path, "replace", fail)
    else:
        monkeypatch.setattr(container, "_parts", lambda *_: (fail() for _ in range(1)))
    expected = KeyboardInterrupt if isinstance(fault, KeyboardInterrupt) else ModelFileError
    with pytest.raises(expected) as caught:
        write_container(file, "model", {}, ARRAYS)
    if expected is ModelFileError:
        assert "No space left on device" in str(caught.value)
        assert str(file) in str(caught.value)
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


def test_a_write_is_flushed_before_it_takes_the_name(file, monkeypatch):
    order = []
    replace, fsync = files.Path.replace, os.fsync
    monkeypatch.setattr(
        files.Path, "replace", lambda *names: (order.append("replace"), replace(*names))[1]
    )
    monkeypatch.setattr(files.os, "fsync", lambda handle: (order.append("fsync"), fsync(handle))[1])
    write_container(file, "model", {}, ARRAYS)
    assert order == ["fsync", "replace", "fsync"]


def test_places_that_cannot_be_written_are_named(tmp_path):
    for path in (tmp_path, tmp_path / "absent" / "a", "a\0b"):
        with pytest.raises(ModelFileError, match="cannot write") as caught:
            write_container(path, "model", {}, {})
        assert repr(str(path)) in str(caught.value)


def test_a_link_stays_a_link_and_modes_are_the_users_own(file, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(file)
    write_container(link, "model", {"new": 1}, {})
    assert link.is_symlink()
    assert read_container(file, "model")[0] == {"new": 1}
    plain = tmp_path / "plain"
    plain.touch()
    assert file.stat().st_mode == plain.stat().st_mode


# -- formats --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", container.FORMAT)
def test_every_older_format_has_a_migration(kind):
    assert set(migrations.MIGRATIONS[kind]) == set(range(1, container.FORMAT[kind]))


def test_older_formats_are_migrated_in_order(tmp_path, monkeypatch):
    monkeypatch.setitem(container.FORMAT, "model", 1)
    write_container(tmp_path / "old", "model", {"a": 1}, {"x": np.arange(3)})
    monkeypatch.setitem(container.FORMAT, "model", 3)
    steps = {
        1: lambda header, arrays: ({**header, "b": header["a"] + 1}, arrays),
        2: lambda header, arrays: ({**header, "c": header["b"] + 1}, {"y": arrays["x"] * 2}),
    }
    monkeypatch.setitem(migrations.MIGRATIONS, "model", steps)
    header, arrays = read_container(tmp_path / "old", "model")
    assert header == {"a": 1, "b": 2, "c": 3}
    assert {name: array.tolist() for name, array in arrays.items()} == {"y": [0, 2, 4]}
    write_container(tmp_path / "new", "model", header, arrays)
    assert read_container(tmp_path / "new", "model")[0] == header  # the newest is left as it is
