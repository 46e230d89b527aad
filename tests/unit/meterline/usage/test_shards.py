"""Which server a partition is on, and what servers of one store are known by."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterline.usage import id_of, placed, store_of

servers = st.integers(1, 5)
partitions = st.sets(st.integers(0, 40))


@given(st.lists(st.tuples(partitions, servers), max_size=4))
def test_a_partition_stays_and_new_ones_go_where_there_is_room(
    asked: list[tuple[set[int], int]],
) -> None:
    """However servers and partitions are added, one after the other."""
    known: dict[int, int] = {}
    number = 0
    for some, more in asked:
        number = max(number, more)
        given_now = placed(known, some, number)
        assert given_now.keys() == some - known.keys()
        before = Counter(known.values())
        known |= given_now
        after = Counter(known.values())
        grown = [after[server] for server in range(number) if after[server] > before[server]]
        rest = [after[server] for server in range(number)]
        assert not grown or max(grown) <= min(rest) + 1, "the emptiest were filled up first"
    assert all(0 <= server < number for server in known.values())


def test_one_server_is_known_by_the_id_of_the_store() -> None:
    assert id_of("a", 0, 1) == "a"
    assert [id_of("a", server, 2) for server in range(2)] == ["a 1 of 2", "a 2 of 2"]


@given(servers, st.data())
def test_servers_of_one_store_are_known_while_some_are_added(
    number: int, data: st.DataObject
) -> None:
    """A start that was ended early has named some of them anew."""
    found = []
    for server in range(number):
        then = data.draw(st.integers(server + 1, number))
        is_new = server > 0 and data.draw(st.booleans())
        more = data.draw(st.integers(server + 1, number))  # both, where the older one did not go
        found.append([] if is_new else [id_of("a", server, then), id_of("a", server, more)])
    assert store_of(found) == ("a",)


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ([[]], ()),
        ([[], []], ()),
        ([["a"]], ("a",)),
        ([["a", "b"]], ("a", "b")),
        ([["a 1 of 2"]], ("a 1 of 2",)),
        ([["a 2 of 2"], ["a 1 of 2"]], ("a 2 of 2 (server 1)", "a 1 of 2 (server 2)")),
        ([["a 1 of 2"], ["b 2 of 2"]], ("a 1 of 2 (server 1)", "b 2 of 2 (server 2)")),
        ([["a 1 of 3"], ["a 2 of 3"]], ("a 1 of 3 (server 1)", "a 2 of 3 (server 2)")),
        ([["a"], ["a"]], ("a (server 1)", "a (server 2)")),
    ],
)
def test_servers_that_do_not_belong_together_are_told(
    found: list[list[str]], told: tuple[str, ...]
) -> None:
    assert store_of(found) == told
