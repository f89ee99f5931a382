"""The database: a model of it that agrees at every step; schemas; backups; faults."""

import gzip
import json
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from sqlalchemy.exc import DBAPIError

from ordbm.errors import SettingsError
from ordbm.serve.backup import restore_backup, write_backup
from ordbm.serve.model_versions import (
    activate,
    active_version,
    add_version,
    all_versions,
    end_lease,
    n_pending,
    register_first,
    take_lease,
)
from ordbm.serve.problems import problem_of
from ordbm.serve.rating_rows import (
    Said,
    changes,
    erase,
    pages_of_changes,
    put_ratings,
    said_by,
)
from ordbm.serve.schema import TABLES
from ordbm.serve.store import Store
from service_runs import asked_here, migrated, settings_for, until

USERS = st.sampled_from([1, "1", "anna", "x'; DROP TABLE ratings; --", "a\x00b", "é"])
ITEMS = st.sampled_from([1, 2, "2", '"', "%", 2**60])
RATINGS = st.sampled_from([1, 2.5, "good", None])


@pytest.fixture
def store(database):
    found = migrated(database)
    yield found
    found.close()


class Database(RuleBasedStateMachine):
    """The store beside a plain dict: what was said last of each pair, since when."""

    store = None  # of the class that is run

    def __init__(self):
        super().__init__()
        for table in TABLES.sorted_tables:
            if table.name != "sequence":
                self.store.write(lambda connection, table=table: connection.execute(table.delete()))
        self.rows, self.erased, self.last = {}, {}, 0

    def noted(self, number):
        assert number > self.last
        self.last = number

    @rule(said=st.lists(st.tuples(USERS, ITEMS, RATINGS), min_size=1, max_size=4))
    def say(self, said):
        changed, number = self.store.write(lambda connection: put_ratings(connection, said))
        self.noted(number)
        news = {(user, item): rating for user, item, rating in said}
        before = {key: row[0] for key, row in self.rows.items()}
        assert changed == sum(
            key not in before or before[key] != rating for key, rating in news.items()
        )
        for key, rating in news.items():
            if key not in before or before[key] != rating:
                self.rows[key] = rating, number

    @rule(user=USERS)
    def forget(self, user):
        number = self.store.write(lambda connection: erase(connection, user))
        self.noted(number)
        self.erased[user] = number
        self.rows = {key: row for key, row in self.rows.items() if key[0] != user}

    @rule(user=USERS, back=st.integers(0, 5))
    def read(self, user, back):
        since = max(0, self.last - back)
        found = self.store.read(lambda connection: said_by(connection, user, since))
        kept = {
            item: rating
            for (who, item), (rating, number) in self.rows.items()
            if who == user and number > since
        }
        gone = self.erased.get(user, 0) > since
        assert found == Said(kept, gone, found.number)
        assert {type(item) for item in found.ratings} == {type(item) for item in kept}

    @invariant()
    def changes_are_whole_and_in_order(self):
        found = [row for page in pages_of_changes(self.store, most=2) for row in page]
        assert [row.number for row in found] == sorted(row.number for row in found)
        assert len(found) == len({(row.user, row.item) for row in found}) == len(self.rows)
        pending = self.store.read(lambda connection: n_pending(connection, 0))
        assert pending == len(self.rows) + len(self.erased)


def test_the_database_agrees_with_a_dict_at_every_step(store):
    told = settings(max_examples=8, stateful_step_count=12, deadline=None, derandomize=True)
    run_state_machine_as_test(type("OverStore", (Database,), {"store": store}), settings=told)


def test_migrations_make_the_tables_that_the_code_has(store):
    def differences(connection):
        return compare_metadata(MigrationContext.configure(connection), TABLES)

    assert store.read(differences) == []
    from ordbm.serve.upgrade import bring_up_to_date

    bring_up_to_date(store)  # again: nothing to do
    store.write(lambda one: one.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(SettingsError, match="later version"):
        bring_up_to_date(store)


def test_writers_side_by_side_clobber_nothing(store):
    def write(number):
        for step in range(10):
            said = [(number, step, step), ("all", number, step), ("one", 1, number)]
            store.write(partial(put_ratings, said=said))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    for number in range(4):
        found = store.read(partial(said_by, user=number))
        assert found.ratings == {step: step for step in range(10)}
    found = store.read(lambda connection: said_by(connection, "all"))
    assert found.ratings == dict.fromkeys(range(4), 9)
    numbers = [row.number for row in store.read(lambda connection: changes(connection, 0))]
    assert numbers == sorted(numbers)


def test_a_transaction_that_fails_leaves_nothing(store):
    def broken(connection):
        put_ratings(connection, [(1, 1, 5)])
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        store.write(broken)
    assert store.read(lambda connection: said_by(connection, 1)).ratings == {}


def test_one_holder_has_a_lease_until_it_ends_or_runs_out(store):
    def take(holder, seconds=60.0):
        return store.write(lambda connection: take_lease(connection, "x", holder, seconds))

    assert take("a")
    assert take("a")
    assert not take("b")
    store.write(lambda connection: end_lease(connection, "x", "b"))
    assert not take("b")
    store.write(lambda connection: end_lease(connection, "x", "a"))
    assert take("b", seconds=-1.0)
    assert take("c")
    with pytest.MonkeyPatch.context() as patch:
        now = time.time()
        patch.setattr("ordbm.serve.model_versions.time.time", lambda: now - 86_400)
        assert take("d")  # the clock was put back, and nobody has a lease for a day
        assert not take("c")


def test_one_version_is_active_and_kept_ones_can_come_back(store, tmp_path):
    def register(name):
        return store.write(lambda one: register_first(one, tmp_path / name, name))

    assert store.read(active_version) is None
    assert register("a").number == 1
    assert register("a").number == 1
    store.write(lambda one: add_version(one, tmp_path / "b", "b", 7, "active", {}))
    assert register("a").checksum == "b"  # an update of a file that is known stays
    assert register("c").number == 3  # a file that is not known is meant to answer
    assert store.write(lambda one: activate(one, 2)).checksum == "b"
    assert store.write(lambda one: activate(one, 9)) is None
    states = {one.number: one.state for one in store.read(all_versions)}
    assert states == {1: "kept", 2: "active", 3: "kept"}


# -- backups ---------------------------------------------------------------------------------------

SAID = [(1, "a", 5), ("1", "a", 2.5), ("é\n", 2**60, "good"), (1, "b", None)]


def rows_of(store):
    return store.read(lambda connection: changes(connection, 0))


def test_a_backup_comes_back_on_either_kind_of_database(store, tmp_path, request):
    store.write(lambda connection: put_ratings(connection, SAID))
    store.write(lambda connection: erase(connection, "gone"))
    n_rows = write_backup(store, tmp_path / "backup")
    others = [f"sqlite:///{tmp_path / 'other.sqlite3'}"]
    if not store.is_sqlite:
        others.append(request.getfixturevalue("postgresql").new_database())
    for url in others:
        other = Store(url)
        assert restore_backup(other, tmp_path / "backup") == n_rows
        assert rows_of(other) == rows_of(store)
        after = other.write(lambda connection: put_ratings(connection, [(9, 9, 1)]))[1]
        assert after == rows_of(other)[-1].number > rows_of(store)[-1].number
        with pytest.raises(SettingsError, match="empty one"):
            restore_backup(other, tmp_path / "backup")
        other.close()


def test_a_damaged_backup_is_refused_whole(tmp_path):
    store = migrated(f"sqlite:///{tmp_path / 'a'}")
    store.write(lambda connection: put_ratings(connection, SAID))
    write_backup(store, tmp_path / "backup")
    lines = gzip.decompress((tmp_path / "backup").read_bytes()).splitlines(keepends=True)
    compressed = (tmp_path / "backup").read_bytes()
    damaged = [
        compressed[:-20], b"", b"nonsense", gzip.compress(b"".join(lines[:-1])),
        gzip.compress(b"".join([*lines[:3], *lines[4:]])),
        gzip.compress(b"".join(lines).replace(b"good", b"best")),
    ]  # fmt: skip
    other = migrated(f"sqlite:///{tmp_path / 'b'}")
    for number, content in enumerate(damaged):
        (tmp_path / "damaged").write_bytes(content)
        with pytest.raises(SettingsError, match="damaged"):
            restore_backup(other, tmp_path / "damaged")
        assert rows_of(other) == [], number
    store.close()
    other.close()


# -- faults ----------------------------------------------------------------------------------------


def test_a_full_disk_is_told_and_loses_nothing(served_model, tmp_path):
    with asked_here(settings_for(served_model, tmp_path)) as client:

        def put(user, item):
            address = f"/v1/users/{user}/ratings/{item}"
            return client.put(address, json={"rating": 3}).status_code

        assert put(1, 101) == 200
        store = client.service.store
        with store.writer.connect() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
            kept = connection.connection.dbapi_connection
        acknowledged, refused = set(), 0
        for number in range(3000):
            status = put(1000 + number, f"a long name of an item {number}" * 10)
            if status == 200:
                acknowledged.add(1000 + number)
            else:
                assert status == 507
                refused += 1
            if refused == 5:
                break
        assert refused == 5
        assert client.get("/health/ready").status_code == 200
        assert client.post("/v1/predict", json={"user": 1, "items": [102]}).status_code == 200
        kept.execute("PRAGMA max_page_count = 1000000")
        assert put(5, 101) == 200  # there is space again
        stored = {json.loads(row.user) for row in rows_of(store)}
        assert stored >= acknowledged | {1, 5}


LIMITED = """
import resource, sys
from ordbm.serve.rating_rows import put_ratings
from ordbm.serve.problems import problem_of
from service_runs import migrated

store = migrated(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for number in range(100_000):
    try:
        said = [(number, item * 400, 1) for item in "abcdefghij"]
        store.write(lambda one: put_ratings(one, said))
    except Exception as error:
        print(number, problem_of(error).status)
        break
"""


def test_a_file_that_may_not_grow_keeps_what_was_acknowledged(tmp_path):
    url = f"sqlite:///{tmp_path / 'small.sqlite3'}"
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, url], capture_output=True, text=True, check=True,
        cwd=__file__.rpartition("/")[0],
    )  # fmt: skip
    number, status = map(int, done.stdout.split())
    assert status in (503, 507)
    store = migrated(url)
    assert {json.loads(row.user) for row in rows_of(store)} >= set(range(number))
    store.close()
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


def test_a_database_that_is_lost_is_told_and_comes_back(served_model, tmp_path):
    from service_runs import PostgreSQL

    server = PostgreSQL()
    try:
        settings_of = settings_for(served_model, tmp_path, server.new_database())
        with asked_here(settings_of) as client:

            def put(item):
                answer = client.put(f"/v1/users/1/ratings/{item}", json={"rating": 3})
                assert answer.headers["x-request-id"]
                return answer.status_code

            assert put(101) == 200
            server.stop()  # at once, as in a crash
            assert put(102) == 503
            assert client.get("/health/ready").status_code == 503
            assert client.get("/health/live").status_code == 200
            told = client.post("/v1/predict", json={"ratings": {"101": 3}, "items": [102]})
            assert told.status_code == 200  # what needs no database is answered
            server.start()
            until(lambda: put(103) == 200)
            stored = {json.loads(row.item) for row in rows_of(client.service.store)}
            assert stored >= {101, 103}
    finally:
        server.close()


def test_a_connection_that_is_lost_meanwhile_is_not_noticed(postgresql):
    store = migrated(postgresql.new_database())
    store.write(lambda connection: put_ratings(connection, SAID))
    ends = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE pid <> pg_backend_pid() AND datname = current_database()"
    )
    other = Store(store.url.render_as_string(hide_password=False))
    other.read(lambda connection: connection.exec_driver_sql(ends).all())
    store.write(lambda connection: put_ratings(connection, [(7, 7, 1)]))
    other.read(lambda connection: connection.exec_driver_sql(ends).all())
    assert store.read(lambda connection: said_by(connection, 7)).ratings == {7: 1}
    store.close()
    other.close()


def test_problems_of_a_database_tell_neither_statements_nor_secrets(tmp_path):
    store = Store(f"sqlite:///{tmp_path / 'no' / 'such' / 'folder'}")
    with pytest.raises(DBAPIError) as error:
        store.write(lambda connection: put_ratings(connection, SAID))
    problem = problem_of(error.value)
    assert problem.status == 503
    assert "SELECT" not in problem.detail
    assert "folder" not in problem.detail
