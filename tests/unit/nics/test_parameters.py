from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nics.parameters import PARAMETERS, check_values, params_of, unmodelled, values_changed, values_text
from switches.errors import CapabilityError
from tests.unit.nics.sysfs import DEFAULTS
from twin.errors import ParameterError
from twin.search.coordinates import SENDERS, Settings
from twin.senders.dcqcn import PAPER, VENDOR
from twin.watermark import Watermark


def test_the_drivers_defaults_are_the_preset_of_vendors() -> None:
    assert params_of(DEFAULTS, "NIC") == VENDOR


def test_a_sender_of_the_preset_of_vendors_has_the_drivers_defaults() -> None:
    changed = values_changed(PAPER, VENDOR)
    assert {"rpg_byte_reset", "dce_tcp_g"} <= changed.keys()
    assert changed == {name: DEFAULTS[name] for name in changed}


def test_g_is_the_weight_of_the_old_alpha() -> None:
    assert params_of({**DEFAULTS, "dce_tcp_g": 1020}, "NIC").gain == 4 / 1024
    assert values_changed(VENDOR, replace(VENDOR, gain=1 / 256)) == {"dce_tcp_g": 1020}


def test_a_receiver_that_tells_less_often_than_the_sender_cuts_sets_the_interval() -> None:
    assert params_of({**DEFAULTS, "min_time_between_cnps": 50}, "NIC").cnp_interval_s == pytest.approx(50e-6)
    without = {name: value for name, value in DEFAULTS.items() if PARAMETERS[name].side == "rp"}
    assert params_of(without, "NIC") == VENDOR


@pytest.mark.parametrize("coordinate", SENDERS, ids=lambda one: one.name)
def test_what_a_round_may_tune_is_what_a_nic_takes(coordinate: Any) -> None:
    start = Settings(Watermark(400_000, 1_600_000, 0.2), VENDOR)
    for tried in coordinate.tried(start):
        changed = values_changed(VENDOR, tried.senders)
        assert changed
        check_values(changed, "NIC")


def test_receivers_tell_as_often_as_senders_are_to_cut() -> None:
    faster = replace(VENDOR, cnp_interval_s=12e-6)
    assert values_changed(VENDOR, faster) == {"rate_reduce_monitor_period": 12, "min_time_between_cnps": 12}
    assert params_of({**DEFAULTS, **values_changed(VENDOR, faster)}, "NIC") == faster
    assert values_changed(VENDOR, VENDOR) == {}


def test_values_are_written_with_their_units() -> None:
    values = {"rpg_ai_rate": 5, "dce_tcp_g": 1019, "clamp_tgt_rate": 1, "of_a_later_version": 3}
    said = "rpg_ai_rate 5 Mbit/s, dce_tcp_g 1019/1024, clamp_tgt_rate 1, of_a_later_version 3"
    assert values_text(values) == said


def test_no_byte_counter_is_0() -> None:
    assert params_of({**DEFAULTS, "rpg_byte_reset": 0}, "NIC").byte_counter_bytes is None
    assert values_changed(VENDOR, replace(VENDOR, byte_counter_bytes=None)) == {"rpg_byte_reset": 0}


def test_what_is_between_two_units_is_rounded() -> None:
    between = replace(VENDOR, increase_timer_s=55.4e-6, gain=1 / 300)
    assert values_changed(VENDOR, between) == {"rpg_time_reset": 55, "dce_tcp_g": 1021}


@pytest.mark.parametrize(
    ("params", "says"),
    [
        (PAPER, "rpg_byte_reset: received 10000000 bytes; a NIC takes 0 to 32767 bytes"),
        (
            replace(VENDOR, min_rate_bytes_per_s=0.0),
            "rpg_min_rate: received 0 Mbit/s; a NIC takes 1 to the line",
        ),
        (
            replace(VENDOR, increase_timer_s=1.0),
            "rpg_time_reset: received 1000000 µs; a NIC takes 1 to 131071 µs",
        ),
        (replace(VENDOR, alpha_timer_s=0.1e-6), "dce_tcp_rtt: received 0 µs; a NIC takes 1 to 131071 µs"),
        (
            replace(VENDOR, fast_recovery_steps=40),
            "rpg_threshold: received 40 steps; a NIC takes 1 to 31 steps",
        ),
        (
            replace(VENDOR, initial_alpha=0.0),
            "initial_alpha_value: received 0/1024; a NIC takes 1 to 1023/1024; give a value in that range; "
            "1023/1024 is the driver's own",
        ),
    ],
)
def test_what_a_nic_does_not_take_is_refused_with_its_range(params: object, says: str) -> None:
    with pytest.raises(CapabilityError) as caught:
        check_values(values_changed(VENDOR, params), "NIC")  # type: ignore[arg-type]  # of DcqcnParams
    assert says in str(caught.value)
    assert "is the driver's own" in str(caught.value)


def test_a_rate_above_the_line_rate_is_refused() -> None:
    check_values({"rpg_ai_rate": 100_000}, "NIC", 100_000)
    with pytest.raises(CapabilityError, match="a NIC takes 1 to 100000 Mbit/s"):
        check_values({"rpg_ai_rate": 100_001}, "NIC", 100_000)


def test_an_unknown_parameter_is_refused_with_the_known_ones() -> None:
    with pytest.raises(CapabilityError, match=r"'ai_rate'; parameters of a NIC are .*rpg_ai_rate"):
        check_values({"ai_rate": 5}, "NIC")
    with pytest.raises(CapabilityError, match="at least one parameter"):
        check_values({}, "NIC")


def test_a_missing_file_is_a_driver_too_old() -> None:
    values = {name: value for name, value in DEFAULTS.items() if name != "dce_tcp_g"}
    with pytest.raises(CapabilityError, match=r"no file of dce_tcp_g; .* install a newer driver or firmware"):
        params_of(values, "NIC")


def test_what_the_twin_cannot_run_is_an_error_of_its_own() -> None:
    with pytest.raises(ParameterError, match="the gain lies in"):
        params_of({**DEFAULTS, "dce_tcp_g": 0}, "NIC")


def test_what_the_twin_leaves_out_is_said() -> None:
    assert unmodelled(DEFAULTS) == ()
    assert unmodelled({**DEFAULTS, "rpg_min_dec_fac": 5}) == ()
    assert unmodelled({**DEFAULTS, "rpg_gd": 10, "rpg_min_dec_fac": 90}) == (
        "rpg_gd is 10, and the twin takes it to be 11.",
        "rpg_min_dec_fac is 90, and the twin takes it to be 50.",
    )


def test_names_in_debugfs_are_those_of_the_upstream_driver() -> None:
    # drivers/infiniband/hw/mlx5/cong.c, mlx5_ib_dbg_cc_name
    assert {one.debug_name for one in PARAMETERS.values()} == {
        "rp_clamp_tgt_rate",
        "rp_clamp_tgt_rate_ati",
        "rp_time_reset",
        "rp_byte_reset",
        "rp_threshold",
        "rp_ai_rate",
        "rp_max_rate",
        "rp_hai_rate",
        "rp_min_dec_fac",
        "rp_min_rate",
        "rp_rate_to_set_on_first_cnp",
        "rp_dce_tcp_g",
        "rp_dce_tcp_rtt",
        "rp_rate_reduce_monitor_period",
        "rp_initial_alpha_value",
        "rp_gd",
        "np_min_time_between_cnps",
        "np_cnp_dscp",
        "np_cnp_prio",
    }
