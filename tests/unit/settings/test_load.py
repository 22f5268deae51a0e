"""Settings: environment over file over default, and every mistake named by its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.domain import ask_of
from settings.errors import SettingsError
from settings.load import load_settings, override
from settings.model import Settings
from twin.senders.dcqcn import PAPER
from twin.watermark import Watermark, WatermarkBounds

pytestmark = pytest.mark.usefixtures("no_settings")


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "ecntwin.yaml"
    path.write_text(text, "utf-8")
    return path


def test_defaults_need_no_file() -> None:
    settings = load_settings()
    assert settings.server.host == "127.0.0.1"
    assert settings.push.adapter == "dry-run"
    assert settings.security.tokens == ()
    assert settings.bounds.bounds() == WatermarkBounds()
    assert settings.dcqcn.params() == PAPER


def test_a_file_overrides_defaults_and_the_environment_overrides_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, "server: {port: 9000, host: '::1'}\ntuning: {period_s: 7}\n")
    monkeypatch.setenv("ECNTWIN_SERVER__PORT", "9100")
    settings = load_settings(path)
    assert settings.server.port == 9100
    assert settings.server.host == "::1"
    assert settings.tuning.period_s == 7


def test_sizes_and_shares_are_read_as_people_write_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = "{kmin_bytes: 64KB, kmax_bytes: 2.3MB, pmax: 5%}"
    times = "rollout: {soak_s: 10m, silence_s: 500ms}\nalarms: {keep: 1, clear_s: '30 s', forget_s: 4h}\n"
    path = written(tmp_path, f"fabric: {{buffer_bytes: 4MB}}\nincumbent: {{default: {mark}}}\n{times}")
    monkeypatch.setenv("ECNTWIN_SERVER__MAX_BODY_BYTES", "32 MB")
    monkeypatch.setenv("ECNTWIN_SERVER__SHUTDOWN_GRACE_S", "1m")
    settings = load_settings(path)
    assert settings.fabric.buffer_bytes == 4_000_000
    assert settings.incumbent.default.watermark() == Watermark(64_000, 2_300_000, 0.05)
    assert settings.server.max_body_bytes == 32_000_000
    assert (settings.rollout.soak_s, settings.rollout.silence_s) == (600, 0.5)
    assert (settings.alarms.clear_s, settings.alarms.forget_s) == (30, 14_400)
    assert settings.server.shutdown_grace_s == 60


@pytest.mark.parametrize("size", ["4XB", "MB", "inf", "1.5B", "-4MB", "nan"])
def test_what_is_no_size_is_named_by_its_place(tmp_path: Path, size: str) -> None:
    with pytest.raises(SettingsError, match=r"fabric\.buffer_bytes: received"):
        load_settings(written(tmp_path, f"fabric: {{buffer_bytes: {size}}}\n"))


@pytest.mark.parametrize("lasts", ["4x", "m", "inf", "-4m", "1.5ms"])
def test_what_is_no_duration_is_named_by_its_place(tmp_path: Path, lasts: str) -> None:
    with pytest.raises(SettingsError, match=r"server\.shutdown_grace_s: received"):
        load_settings(written(tmp_path, f"server: {{shutdown_grace_s: {lasts}}}\n"))


def test_a_rate_is_no_duration(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"limits\.requests_per_s: received '10m'"):
        load_settings(written(tmp_path, "security: {limits: {requests_per_s: 10m}}\n"))


@pytest.mark.parametrize(
    ("text", "engine"),
    [("false", None), ("null", None), ("off", None), ("true", "packet"), ("packet", "packet")],
)
def test_the_second_opinion_is_switched_as_people_write_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, engine: str | None
) -> None:
    path = written(tmp_path, f"search: {{second_opinion: {text}}}\n")
    assert load_settings(path).search.second_opinion == engine
    monkeypatch.setenv("ECNTWIN_SEARCH__SECOND_OPINION", text)
    assert load_settings().search.second_opinion == engine
    assert ask_of(load_settings()).search.second_engine == engine


def test_a_second_engine_nobody_knows_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, "search: {second_opinion: magic}\n")
    with pytest.raises(SettingsError, match="second_opinion"):
        load_settings(path)


def test_an_empty_file_is_all_defaults(tmp_path: Path) -> None:
    assert load_settings(written(tmp_path, "# nothing yet\n")) == Settings()


def test_the_example_in_deploy_is_valid_and_shows_defaults() -> None:
    example = Path(__file__).resolve().parents[3] / "deploy" / "config.example.yaml"
    shown = load_settings(example)
    assert (
        shown.model_copy(update={"security": Settings().security, "fabric": Settings().fabric}) == Settings()
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("server: {prot: 1}", ["server.prot", "did you mean port?", "known keys here are"]),
        ("sever: {port: 1}", ["sever", "did you mean server?"]),
        ("server: {port: 70000}", ["server.port", "70000", "65535"]),
        ("server: {port: true}", ["server.port: received True", "it is a whole number, neither true nor"]),
        ("search: {harm_price: on}", ["search.harm_price: received True", "it is a number"]),
        ("telemetry: {int: {int_ports: true}}", ["telemetry.int.int_ports", "it is a whole number"]),
        (
            "alarms: {links: [{name: a, figure: marked_ratio, over: yes}]}",
            ["links[0].over", "a number"],
        ),
        (
            "condition: {paused_share_watch: 0.5}",
            [
                "condition",
                "paused_share_watch 0.5 is above paused_share_bad 0.01",
                "lower the first",
            ],
        ),
        ("server: {port: [1]}", ["server.port", "an array of 1"]),
        (
            "incumbent: {default: {kmin_bytes: 9, kmax_bytes: 3, pmax: 0.1}}",
            ["incumbent.default", "Kmin must be below"],
        ),
        (
            "incumbent: {default: {kmin_bytes: 1, kmax_bytes: 3, pmax: .nan}}",
            ["incumbent.default.pmax", "nan"],
        ),
        ("incumbent: {default: {kmin_bytes: 1, kmax_bytes: 3}}", ["incumbent.default.pmax", "needed"]),
        ("bounds: {kmin_low_bytes: 0}", ["bounds", "0 < low < high"]),
        ("dcqcn: {preset: quick}", ["dcqcn", "known presets are paper, vendor"]),
        ("dcqcn: {parameters: {g: 2}}", ["dcqcn", "gain lies in (0, 1)"]),
        ("dcqcn: {preset: paper, parameters: {g: 0.1}}", ["dcqcn", "not both"]),
        ("search: {weights: fast}", ["search", "known policies are balanced"]),
        ("search: {workers: 1}", ["search.workers", "greater than or equal to 2"]),
        ("search: {seed: 9223372036854775808}", ["search.seed", "less than"]),
        (
            "security: {tokens: [{name: a, sha256: abc, scopes: [read]}]}",
            ["security.tokens[0].sha256: received a value that is not shown", "64 hex digits"],
        ),
        (
            "security: {tokens: [{name: a, sha256: 12, scopes: [read]}]}",
            ["security.tokens[0].sha256: received a value that is not shown", "string"],
        ),
        ("telemetry: {n_periods: 0}", ["telemetry", "n_periods"]),
        # More nanoseconds than the window can count.
        ("telemetry: {period_s: 1.0e+12}", ["telemetry.period_s", "less than or equal to 86400"]),
        ("server: {port: 1}\nserver: {port: 2}", ["key 'server' twice"]),
        ("server: [", ["ecntwin.yaml", "YAML"]),
        ("- 1\n- 2", ["list", "sections by name"]),
        ("push: {inventroy: x}", ["push.inventroy", "did you mean inventory?"]),
        ("push: {enabled: true}", ["push.enabled needs storage.url", "journal", "sqlite:///ecntwin.db"]),
        ("storage: {url: ecntwin.db}", ["storage.url", "URL of a database"]),
        ("rollout: {batch_size: 0}", ["rollout.batch_size", "greater than or equal to 1"]),
        ("rollout: {pause_share_limit: 1.5}", ["rollout.pause_share_limit", "less than or equal to 1"]),
        ("rollout: {queue_limit: 0.5}", ["rollout.queue_limit", "greater than or equal to 1"]),
        ("rollout: {canary: leaf1}", ["rollout.canary", "valid list"]),
        ("server:", ["settings ecntwin.yaml server: received None; input should be an object; "]),
        ("server: {tls_key: 5}", ["server.tls_key: received 5; input is not a valid path; "]),
        ("security: {tokens: [{name: a, sha256: %s, scopes: read}]}" % (64 * "a"), ["scopes", "valid list"]),
        ("tuning: {nic_bounds: {rpg_ai_rate: [1, 2, 3]}}", ["; a list should have at most 2 items"]),
        (
            "incumbent: {switches: {leaf1: {kmin_byte: 1, kmax_bytes: 3, pmax: 0.1}}}",
            ["incumbent.switches.leaf1.kmin_byte", "did you mean kmin_bytes?"],
        ),
    ],
)
def test_every_mistake_in_a_file_is_named(tmp_path: Path, text: str, says: list[str]) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(written(tmp_path, text))
    for part in says:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("security: {tokens: [{name: a, token: hunter2, scopes: [read]}]}", "security.tokens[0].token"),
        ("security: {tokens: [hunter2]}", "security.tokens[0]"),
        ("security: {tokens: hunter2}", "security.tokens"),
        ("security: {token: hunter2}", "security.token"),
        ("server: {tls_key_password: hunter2}", "server.tls_key_password"),
        ("storage: {urll: 'postgresql://me:hunter2@db/x'}", "storage.urll"),
        ("storage: 'postgresql://me:hunter2@db/x'", "storage"),
    ],
)
def test_a_secret_in_the_wrong_place_is_not_repeated(tmp_path: Path, text: str, where: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(written(tmp_path, text))
    told = [str(caught.value), *getattr(caught.value, "__notes__", ())]
    assert any(f"{where}: received a value that is not shown; " in one for one in told)
    assert not any("hunter2" in one for one in told)


def test_two_mistakes_are_counted(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"server.prot: .*1 more mistake after") as caught:
        load_settings(written(tmp_path, "server: {prot: 1, hots: 2}"))
    (other,) = caught.value.__notes__
    assert "server.hots: received 2" in other


def test_names_of_tokens_are_unique(tmp_path: Path) -> None:
    token = f"{{name: a, sha256: {'a' * 64}, scopes: [read]}}"
    with pytest.raises(SettingsError, match="used twice"):
        load_settings(written(tmp_path, f"security: {{tokens: [{token}, {token}]}}"))


@pytest.mark.parametrize(
    "name", ["local", "policy", "settings", "oidc:ada", "command:root", "policy (rollout.auto)"]
)
def test_a_token_is_not_named_as_a_caller_without_one(tmp_path: Path, name: str) -> None:
    text = f"security: {{tokens: [{{name: '{name}', sha256: {'a' * 64}, scopes: [read]}}]}}"
    with pytest.raises(SettingsError, match=r"tokens\[0\].name: .*a caller without a token"):
        load_settings(written(tmp_path, text))


def test_a_token_has_one_name(tmp_path: Path) -> None:
    signs = {"a": "b", "b": "a", "c": "A"}
    tokens = [f"{{name: {name}, sha256: {64 * sign}, scopes: [read]}}" for name, sign in signs.items()]
    with pytest.raises(SettingsError, match="tokens 'b' and 'c' have the same sha256"):
        load_settings(written(tmp_path, f"security: {{tokens: [{', '.join(tokens)}]}}"))


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("ECNTWIN_SERVR__PORT", "1", "did you mean server?"),
        ("ECNTWIN_SERVER__PROT", "1", "did you mean port?"),
        ("ECNTWIN_SERVER__PORT", "many", "'many'"),
        ("ECNTWIN_SECURITY__TOKENS", "[{", "JSON"),
    ],
)
def test_every_mistake_in_the_environment_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, says: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=says.replace("?", r"\?")):
        load_settings()


def test_a_variable_that_is_not_json_is_named_without_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECNTWIN_ROLLOUT__CANARY", "leaf1")
    monkeypatch.setenv("ECNTWIN_ROLLOUT__SOAK_S", "60")
    with pytest.raises(SettingsError) as caught:
        load_settings()
    assert str(caught.value) == (
        "environment ECNTWIN_ROLLOUT__CANARY: received text that is not JSON; a list or a whole section in "
        'one variable is JSON; write a list as ["leaf1", "leaf2"], a section as {"key": value}'
    )


def test_all_mistakes_of_file_and_environment_are_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"ECNTWIN_SERVER__PROT": "1", "ECNTWIN_STORAGE_URL": "x", "ECNTWIN_TUNING__PERIODS": "3"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as caught:
        load_settings(written(tmp_path, "alarms: {keep: -1}"))
    said = "\n".join([str(caught.value), *caught.value.__notes__])
    assert "environment ECNTWIN_STORAGE_URL: received section 'storage_url'" in said
    assert "did you mean storage?" in said
    assert "(3 more mistakes after this one)" in said
    for place in ("server.prot", "tuning.periods", "alarms.keep"):
        assert place in said


def test_the_variable_that_names_the_file_is_no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECNTWIN_CONFIG", "/etc/ecntwin.yaml")
    assert load_settings() == Settings()


def test_a_missing_file_and_a_binary_one_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="readable"):
        load_settings(tmp_path / "none.yaml")
    (tmp_path / "x.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match="UTF-8"):
        load_settings(tmp_path / "x.yaml")


def test_a_topology_file_is_looked_for_beside_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, "fabric: {topology: fabric.json}")
    assert load_settings(path).fabric.topology == tmp_path / "fabric.json"
    monkeypatch.setenv("ECNTWIN_FABRIC__TOPOLOGY", "elsewhere.json")
    assert load_settings(path).fabric.topology == Path("elsewhere.json")


def test_an_inventory_and_a_database_are_looked_for_beside_the_settings(tmp_path: Path) -> None:
    path = written(
        tmp_path, "push: {inventory: sw.yaml, enabled: true}\nstorage: {url: 'sqlite:///sub/x.db'}"
    )
    settings = load_settings(path)
    assert settings.push.inventory == tmp_path / "sw.yaml"
    assert settings.storage.url == f"sqlite:///{tmp_path}/sub/x.db"


@pytest.mark.parametrize(
    "url", ["sqlite:////var/lib/x.db", "sqlite:///:memory:", "sqlite:///", "postgresql+psycopg://db/ecntwin"]
)
def test_a_database_that_is_elsewhere_stays_there(tmp_path: Path, url: str) -> None:
    assert load_settings(written(tmp_path, f"storage: {{url: '{url}'}}")).storage.url == url


def test_a_database_s_password_is_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(written(tmp_path, "storage: {url: 'Postgres//me:hunter2@db/x'}"))
    assert "hunter2" not in str(caught.value)
    assert "storage.url" in caught.value.where


def test_options_of_the_command_win_and_are_checked() -> None:
    settings = override(Settings(), host="::1", port=0)
    assert (settings.server.host, settings.server.port) == ("::1", 0)
    assert override(settings) is settings
    with pytest.raises(SettingsError, match="option port"):
        override(settings, port=-1)


def test_settings_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().server.port = 1  # type: ignore[misc]


def test_switches_may_differ_from_the_default(tmp_path: Path) -> None:
    settings = load_settings(
        written(tmp_path, "incumbent: {switches: {leaf1: {kmin_bytes: 1, kmax_bytes: 2, pmax: 0.5}}}")
    )
    assert settings.incumbent.switches["leaf1"].watermark() == Watermark(1, 2, 0.5)


def test_nic_values_are_tried_within_bounds_in_the_twin_s_terms(tmp_path: Path) -> None:
    text = "tuning: {nic_bounds: {rpg_ai_rate: [5, 400], dce_tcp_g: [1000, 1019], rpg_byte_reset: [0, 0]}}"
    bounds = ask_of(load_settings(written(tmp_path, text))).search.sender_bounds
    # dce_tcp_g is the weight of the old alpha, the gain that of the new sample.
    assert bounds == (
        ("ai_rate_bytes_per_s", 5, 400),
        ("gain", 5, 24),
        ("byte_counter_bytes", 0, 0),
    )


@pytest.mark.parametrize(
    ("bounds", "says"),
    [
        ("rpg_ai_rat: [5, 400]", "rpg_ai_rat is no NIC value that is tuned; those are clamp_tgt_rate, "),
        ("cnp_dscp: [1, 5]", "cnp_dscp is no NIC value that is tuned"),
        ("rpg_ai_rate: [400, 5]", "rpg_ai_rate has bounds 400 to 5; the lower one is first"),
        ("rpg_threshold: [1, 99]", "rpg_threshold: received 99 steps; a NIC takes 1 to 31 steps"),
        (
            "rpg_time_reset: [2000, 3000]",
            "rpg_time_reset has bounds 2000 to 3000; bounds hold a value that is tried, of 1 to 1500 µs",
        ),
        ("rpg_ai_rate: [1.5, 3]", "tuning.nic_bounds.rpg_ai_rate"),
    ],
)
def test_bounds_that_no_nic_value_has_are_named(tmp_path: Path, bounds: str, says: str) -> None:
    with pytest.raises(SettingsError) as found:
        load_settings(written(tmp_path, f"tuning: {{nic_bounds: {{{bounds}}}}}"))
    assert says in str(found.value)
