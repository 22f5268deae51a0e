"""What holds of any values of a NIC: they come back from the twin's parameters as they were."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from nics.base import NicValues, StagedChange
from nics.commands import found_nics, numbers
from nics.parameters import HIGHEST_RATE_MBIT, PARAMETERS, Values, check_values, params_of, values_changed

SENDER = [one for one in PARAMETERS.values() if one.field is not None]


WORDS = st.sampled_from(["nic", "net", "file", "counter", "end", "ens1", "mlx5_0", "a:1", "7"])
LINES = st.one_of(st.text(max_size=60), st.builds(" ".join, st.lists(WORDS, max_size=5)))


@given(st.lists(LINES, max_size=20))
def test_whatever_a_host_says_is_read_or_refused(lines: list[str]) -> None:
    found = found_nics("\n".join(lines))
    if found is not None:
        for nic in found:
            numbers(nic.files, "ens1/ecn/roce_rp")
            assert all(value >= 0 for value in nic.counters.values())


@st.composite
def running(draw: st.DrawFn) -> Values:
    """A sender within its ranges; without g of 0, which is no gain."""
    return {
        one.name: draw(st.integers(max(one.least, one.name == "dce_tcp_g"), one.most or HIGHEST_RATE_MBIT))
        for one in SENDER
    }


@given(running(), running())
def test_values_come_back_as_they_were(before: Values, after: Values) -> None:
    check_values(after, "NIC")
    changed = values_changed(params_of(before, "NIC"), params_of(after, "NIC"))
    assert {name: changed.get(name, before[name]) for name in before} == after


@given(st.lists(running(), min_size=1, max_size=3), running())
def test_a_change_survives_json(before: list[Values], after: Values) -> None:
    was = tuple(NicValues(f"ens{number}", values) for number, values in enumerate(before))
    change = StagedChange(id="c", host="gpu1", after=after, before=was, diff="", undo={"files": {"a": "b"}})
    assert msgspec.json.decode(msgspec.json.encode(change), type=StagedChange) == change
