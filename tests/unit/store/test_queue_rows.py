"""Steps of ports in the database: written twice, folded, pruned a little at a time, read; on both kinds."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import Connection, event, func, select

from store.database import Database
from store.queue_rows import (
    NS_PER_S,
    PortStep,
    begin_ns,
    deepest,
    fold,
    lengths,
    newest_ns,
    prune,
    seen,
    sent,
    series,
    write_step,
)
from store.tables import queue_history

S = NS_PER_S
EPOCH_NS = 1_767_225_600 * S
EARLY = {"since_ns": 0, "until_ns": 2 * EPOCH_NS}


def step(
    port: str = "e0",
    depth: float | None = 100.0,
    *,
    switch: str = "leaf1",
    most: float | None = None,
    throughput: float | None = 1e9,
    marks: float | None = 10.0,
    pause: float | None = 0.1,
) -> PortStep:
    return PortStep(switch, port, depth, depth if most is None else most, throughput, marks, pause)


def put(database: Database, at_s: int, *ports: PortStep, step_s: int = 10) -> None:
    database.write_now(lambda one: write_step(one, step_s, EPOCH_NS + at_s * S, ports))


def every(connection: Connection) -> list[tuple[int, int, str, float | None]]:
    columns = queue_history.c
    rows = connection.execute(
        select(columns.step_s, columns.at_ns, columns.port, columns.depth_bytes).order_by(
            columns.step_s, columns.at_ns, columns.port
        )
    )
    return [(row[0], row[1], row[2], row[3]) for row in rows]


def test_a_step_that_was_written_before_the_clock_was_set_back_is_replaced(database: Database) -> None:
    database.write_now(lambda one: write_step(one, 10, EPOCH_NS, [step("e0", 1.0), step("e1", 2.0)]))
    database.write_now(lambda one: write_step(one, 10, EPOCH_NS, [step("e1", 5.0), step("e2", 6.0)]))
    database.write_now(lambda one: write_step(one, 10, EPOCH_NS, []))
    assert database.read_now(every) == [
        (10, EPOCH_NS, "e0", 1.0),
        (10, EPOCH_NS, "e1", 5.0),
        (10, EPOCH_NS, "e2", 6.0),
    ]


def folded(database: Database, *steps: tuple[int, list[PortStep]]) -> dict[str, PortStep]:
    for at_s, ports in steps:
        put(database, at_s, *ports)
    for _ in range(2):  # the second time comes to the same
        database.write_now(lambda one: fold(one, from_s=10, to_s=60, within_ns=EPOCH_NS + 59 * S))
    found = database.read_now(
        lambda one: series(one, 60, width_s=60, ports=[("leaf1", name) for name in ("e0", "e1")], **EARLY)
    )
    assert all(point.at_ns == EPOCH_NS for points in found.values() for point in points)
    assert all(len(points) <= 1 for points in found.values())
    return {points[0].step.port: points[0].step for points in found.values() if points}


def test_steps_are_folded_into_means_and_the_largest(database: Database) -> None:
    found = folded(
        database,
        (0, [step("e0", 100.0, most=300.0, throughput=2e9, marks=0.0, pause=0.0)]),
        (10, [step("e0", 200.0, most=250.0, throughput=4e9, marks=8.0, pause=0.5)]),
        (60, [step("e0", 9e9)]),  # of the next minute
    )
    assert found == {"e0": PortStep("leaf1", "e0", 150.0, 300.0, 3e9, 4.0, 0.25)}


def test_a_step_in_which_a_port_was_not_seen_counts_as_empty(database: Database) -> None:
    found = folded(
        database,
        (0, [step("e0", 100.0), step("e1", 60.0)]),
        (10, [step("e0", 100.0)]),
        (20, [step("e0", 100.0)]),
    )
    assert found["e0"].depth_bytes == pytest.approx(100.0)
    assert found["e1"].depth_bytes == pytest.approx(20.0)
    assert found["e1"].depth_max_bytes == 60.0
    assert found["e1"].throughput_bytes_per_s == pytest.approx(1e9 / 3)


def test_what_nobody_told_stays_untold_and_counts_for_nothing(database: Database) -> None:
    untold = step("e1", None, marks=None, pause=None)
    found = folded(database, (0, [step("e0", 100.0), untold]), (10, [step("e0", None), untold]))
    assert found["e0"].depth_bytes == 100.0
    assert (found["e1"].depth_bytes, found["e1"].depth_max_bytes) == (None, None)
    assert (found["e1"].marked_packets_per_s, found["e1"].pause_share) == (None, None)


def test_a_minute_without_steps_leaves_none(database: Database) -> None:
    assert folded(database) == {}


def test_the_oldest_steps_are_pruned_a_few_at_a_time(database: Database) -> None:
    for number in range(6):
        put(database, 10 * number, step("e0"), step("e1"))
    put(database, 0, step(), step_s=60)
    before_ns = EPOCH_NS + 50 * S
    assert database.write_now(lambda one: prune(one, 10, before_ns, most=2)) == 2
    assert (
        next(at_ns for step_s, at_ns, _, _ in database.read_now(every) if step_s == 10) == EPOCH_NS + 20 * S
    )
    assert database.write_now(lambda one: prune(one, 10, before_ns, most=9)) == 3
    assert database.write_now(lambda one: prune(one, 10, before_ns, most=9)) == 0
    left = database.read_now(every)
    assert [(row[0], row[1]) for row in left] == [(10, before_ns), (10, before_ns), (60, EPOCH_NS)]
    assert database.read_now(lengths) == [10, 60]


def test_the_newest_step_until_a_time(database: Database) -> None:
    assert database.read_now(lambda one: newest_ns(one, 10, until_ns=EPOCH_NS)) is None
    for at_s in (0, 10):
        put(database, at_s, step())
    assert database.read_now(lambda one: newest_ns(one, 10, until_ns=EPOCH_NS + 9 * S)) == EPOCH_NS
    assert database.read_now(lambda one: newest_ns(one, 10, until_ns=EPOCH_NS + 10 * S)) == EPOCH_NS + 10 * S


@pytest.fixture
def three(database: Database) -> Database:
    for at_s, deep in ((0, 10.0), (10, 30.0), (20, 50.0)):
        ports = [
            step("e0", deep),
            step("e1", 7 * deep, switch="leaf2"),
            step("e2", None, switch="leaf2"),
            step("e3", 1.0, switch="leaf2"),
        ]
        put(database, at_s, *ports)
    return database


def test_the_deepest_come_first_and_those_that_nobody_tells_last(three: Database) -> None:
    def found(switch: str | None = None, port: str | None = None, most: int = 9) -> list[tuple[str, str]]:
        return three.read_now(lambda one: deepest(one, 10, switch=switch, port=port, most=most, **EARLY))

    everything = [("leaf2", "e1"), ("leaf1", "e0"), ("leaf2", "e3"), ("leaf2", "e2")]
    assert found() == everything
    assert found(most=2) == everything[:2]
    assert found(switch="leaf1") == [("leaf1", "e0")]
    assert found(switch="leaf2", port="e3") == [("leaf2", "e3")]
    assert found(port="e9") == []


def test_a_series_is_in_order_and_of_the_ports_that_were_asked_for(three: Database) -> None:
    ports = [("leaf2", "e1"), ("leaf1", "e9"), ("leaf1", "e1")]
    found = three.read_now(
        lambda one: series(
            one, 10, width_s=10, since_ns=EPOCH_NS + 10 * S, until_ns=EPOCH_NS + 20 * S, ports=ports
        )
    )
    assert list(found) == ports
    assert [(point.at_ns, point.step.depth_bytes) for point in found["leaf2", "e1"]] == [
        (EPOCH_NS + 10 * S, 210.0)
    ]
    assert found["leaf1", "e9"] == found["leaf1", "e1"] == []
    assert three.read_now(lambda one: series(one, 10, width_s=10, ports=[], **EARLY)) == {}


def test_a_series_is_put_together_to_wider_steps_as_it_is_read(three: Database) -> None:
    found = three.read_now(
        lambda one: series(one, 10, width_s=20, ports=[("leaf1", "e0"), ("leaf2", "e2")], **EARLY)
    )
    assert [
        (point.at_ns, point.step.depth_bytes, point.step.depth_max_bytes) for point in found["leaf1", "e0"]
    ] == [
        (EPOCH_NS, 20.0, 30.0),
        (EPOCH_NS + 20 * S, 50.0, 50.0),
    ]
    assert [point.step.depth_bytes for point in found["leaf2", "e2"]] == [None, None]


def test_a_name_that_no_database_stores_is_of_no_port(three: Database) -> None:
    ports = [("leaf1", "e0"), ("leaf1", "e\0"), ("leaf\ud800", "e0")]
    found = three.read_now(lambda one: list(sent(one, 10, ports=ports, **EARLY)))
    assert {(row.switch, row.port) for row in found} == {("leaf1", "e0")}


def test_the_past_of_one_port_is_read_without_sorting_the_times_of_all(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/ecntwin.db")
    database.open()
    put(database, 0, step("e0"), step("e1"))

    def plans(connection: Connection) -> list[str]:
        asked: list[tuple[str, object]] = []
        event.listen(connection, "before_cursor_execute", lambda *said: asked.append((said[2], said[3])))
        series(connection, 10, width_s=60, ports=[("leaf1", "e0")], **EARLY)
        explained = [
            connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", given) for sql, given in list(asked)
        ]
        return [row[3] for rows in explained for row in rows]

    found = database.read_now(plans)
    assert any("PRIMARY KEY" in one for one in found)
    assert not [one for one in found if "DISTINCT" in one]
    database.close()


def test_what_was_seen_of_some_switches(three: Database) -> None:
    found = three.read_now(lambda one: seen(one, 10, switches=["leaf2"], **EARLY))
    assert found is not None
    assert (found.steps, found.ports, found.depth_max_bytes) == (3, 3, 350.0)
    assert found.depth_bytes == pytest.approx((7 * 90 + 3) / 6)  # of the third port nobody tells it
    assert found.throughput_bytes_per_s == pytest.approx(3e9)
    assert found.pause_share == pytest.approx(0.1)
    assert three.read_now(lambda one: seen(one, 10, switches=["leaf9"], **EARLY)) is None
    assert three.read_now(lambda one: seen(one, 60, switches=["leaf1"], **EARLY)) is None


def test_ports_without_counters_do_not_count_as_never_paused(database: Database) -> None:
    put(database, 0, step("e0", pause=0.2), step("e1", pause=None))
    put(database, 10, step("e1", pause=None))
    found = database.read_now(lambda one: seen(one, 10, switches=["leaf1"], **EARLY))
    assert found is not None
    assert found.pause_share == pytest.approx(0.2 / 2)  # of e0, which was not there in one step of two


def test_steps_of_unknown_throughput_do_not_count_as_idle(database: Database) -> None:
    silent = step("e0", None, throughput=None, marks=None)
    never = step("e1", throughput=None, marks=None)
    put(database, 0, step("e0", throughput=4e9, marks=8.0), never)
    put(database, 10, silent, never)
    put(database, 20, never)
    found = database.read_now(lambda one: seen(one, 10, switches=["leaf1"], **EARLY))
    assert found is not None
    # Of e0, which was idle in one of the two steps that tell.
    assert (found.throughput_bytes_per_s, found.marked_packets_per_s) == (2e9, 4.0)


def test_a_time_lies_in_the_step_that_began_last() -> None:
    assert begin_ns(EPOCH_NS + 59 * S, 60) == EPOCH_NS
    assert begin_ns(EPOCH_NS + 60 * S, 60) == EPOCH_NS + 60 * S
    assert begin_ns(-1, 10) == -10 * S


def test_a_step_of_a_thousand_ports_is_written_whole_or_not_at_all(database: Database) -> None:
    ports = [step(f"e{number}") for number in range(1_000)]

    def fails(connection: Connection) -> None:
        write_step(connection, 10, EPOCH_NS, ports)
        raise ValueError("half way")

    with pytest.raises(ValueError, match="half way"):
        database.write_now(fails)
    database.write_now(lambda one: write_step(one, 10, EPOCH_NS, ports))
    assert database.read_now(lambda one: one.scalar(select(func.count()).select_from(queue_history))) == 1_000
