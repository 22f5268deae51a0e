"""The ``ecntwin`` command: its subcommands and their options.

Each imports what it runs only when it runs, so that help and completion answer at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from cli import operator
from cli.options import Config, Json, Seed, unset
from cli.output import run_to_exit_code
from twin.engine import DEFAULT_ENGINE, ENGINE_NAMES
from twin.units import BYTES, quantity

tokens = typer.Typer(
    name="token",
    help="Create, list and revoke tokens in the service's database, also while it runs.",
    no_args_is_help=True,
)

EngineOption = Annotated[
    str, typer.Option("--engine", help=f"{', '.join(ENGINE_NAMES[:-1])} or {ENGINE_NAMES[-1]}.")
]
WeightsOption = Annotated[
    str,
    typer.Option(
        "--weights", help="balanced, throughput, latency, BULK,DELAY such as 0.7,0.3, or BULK,MICE,PROBE."
    ),
]
ScoreOption = Annotated[str, typer.Option("--score", help="gain or normalised.")]
DEFAULT_WATERMARK = "400KB,1.6MB,20%"  # of ``twin.search.vendor_table``, whose import would delay the help
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the token.", show_default=False)]


@tokens.command()
def create(
    name: Name,
    scope: Annotated[list[str], unset(help="Scope: telemetry, read, operate or admin.")],
    expires: Annotated[str | None, unset(help="Lifetime, such as 90d; unlimited.")] = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Create a token and print it; it is shown only once."""
    from cli.database.token import create_token

    create_token(config, name, scope, expires, as_json=as_json)


@tokens.command("list")
def list_(config: Config = None, as_json: Json = False) -> None:
    """List tokens with their scopes, expiry and last use."""
    from cli.database.token import list_tokens

    list_tokens(config, as_json=as_json)


@tokens.command()
def revoke(name: Name, config: Config = None, as_json: Json = False) -> None:
    """Revoke a token; a running service refuses it within a few seconds."""
    from cli.database.token import revoke_token

    revoke_token(config, name, as_json=as_json)


advice = typer.Typer(
    name="advice",
    help="Learn the advice between rounds from the service's own rounds, also while it runs, or go back.",
    no_args_is_help=True,
)
AdviceFile = Annotated[
    Path | None, unset("--file", help="Artefact file; tuning.advice_file of the settings.")
]


@advice.command()
def train(
    rounds: Annotated[int, typer.Option(min=1, help="Learn from so many of the newest rounds.")] = 2_000,
    file: AdviceFile = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Learn a new version from rounds in the service's database, and put it in use if it is better."""
    from cli.database.advice import train as run

    run(config, file, rounds, as_json=as_json)


@advice.command("list")
def list_versions(file: AdviceFile = None, config: Config = None, as_json: Json = False) -> None:
    """List versions with what they were learnt from and how they did on rounds held out."""
    from cli.database.advice import versions

    versions(config, file, as_json=as_json)


@advice.command()
def rollback(file: AdviceFile = None, config: Config = None, as_json: Json = False) -> None:
    """Put the version in use again that the current one replaced."""
    from cli.database.advice import rollback as run

    run(config, file, as_json=as_json)


app = typer.Typer(name="ecntwin", no_args_is_help=True, pretty_exceptions_enable=False)


def _print_version(asked: bool) -> None:
    if asked:
        version()
        raise typer.Exit


@app.callback()
def ecntwin(
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Sets the ECN watermark (Kmin, Kmax, Pmax) of RoCEv2 fabrics from INT telemetry and a digital twin."""


@app.command()
def serve(
    config: Config = None,
    host: Annotated[str | None, unset(help="Address to listen on.")] = None,
    port: Annotated[int | None, unset(help="Port to listen on; 0 takes a free one.")] = None,
) -> None:
    """Run the service: reports in over HTTP, recommendations out."""
    from cli.serve import serve as run

    run(config, host, port)


@app.command()
def ingest(
    to: Annotated[str, typer.Option(help="URL of the service to forward reports to.")],
    config: Config = None,
    host: Annotated[str | None, unset(help="Address to listen on.")] = None,
    port: Annotated[int | None, unset(help="Port to listen on; 0 takes a free one.")] = None,
    share_port: Annotated[
        bool, typer.Option("--share-port", help="Let several processes share the port.")
    ] = False,
) -> None:
    """Decode INT reports in a process of its own and forward them to a service."""
    from cli.serve import ingest as run

    run(to, config, host, port, share_port=share_port)


@app.command()
def demo(
    seed: Seed = 1,
    quick: Annotated[bool, typer.Option("--quick", help="A shorter run of about 20 seconds.")] = False,
    picture: Annotated[
        Path | None, unset(help="SVG file to draw; ecntwin-demo.svg, none with --json.")
    ] = None,
    recording: Annotated[
        bool, typer.Option("--recording", help="One round on recorded reports instead.")
    ] = False,
    candidates: Annotated[int, typer.Option(min=2, help="Watermarks to try, with --recording.")] = 256,
    serve: Annotated[
        bool, typer.Option("--serve", help="A service on a lab instead, with its page, until Ctrl-C.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of the page, with --serve.")] = 8080,
    lab_port: Annotated[int, typer.Option(min=0, max=65535, help="Of the lab, with --serve.")] = 9000,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page, with --serve.")
    ] = True,
    as_json: Json = False,
) -> None:
    """Close the loop on a lab under changing traffic, and compare it with fixed settings."""
    if serve:
        from cli.lab import demo_service
        from settings.errors import InputError

        if as_json or quick or recording or picture is not None:
            raise InputError(
                "--serve",
                None,
                "cannot be combined with --json, --quick, --recording or --picture",
                "drop one; ecntwin recommendations current --json gives a recommendation as JSON",
            )
        demo_service(port=port, lab_port=lab_port, seed=seed, browser=browser)
        return
    if recording:
        from cli.tune import recording as replayed
        from settings.errors import InputError

        if as_json or quick or picture is not None:
            raise InputError(
                "--recording",
                None,
                "cannot be combined with --json, --quick or --picture, options of the lab's demo",
                "drop one; ecntwin tune --json gives a round as JSON",
            )
        replayed(seed=seed, candidates=candidates)
        return
    from cli.lab import demo as run

    run(seed=seed, quick=quick, drawn=picture, as_json=as_json)


@app.command()
def lab(
    leaves: Annotated[int, typer.Option(help="Leaf switches.")] = 2,
    spines: Annotated[int, typer.Option(help="Spine switches.")] = 2,
    hosts: Annotated[int, typer.Option(help="Hosts per leaf.")] = 8,
    rate_gbps: Annotated[float, typer.Option(help="Rate of host links.")] = 100.0,
    uplink_gbps: Annotated[float | None, unset(help="Rate of uplinks; as host links.")] = None,
    delay_us: Annotated[float, typer.Option(help="Delay of every link.")] = 1.0,
    topology: Annotated[Path | None, unset(help="Topology file instead of these numbers.")] = None,
    scenario: Annotated[Path | None, unset(help="Scenario file with fabric and flows.")] = None,
    traffic: Annotated[str | None, unset(help="Traffic patterns, such as websearch:0.5.")] = None,
    duration: Annotated[str | None, unset(help="Simulated time, such as 200ms.")] = None,
    seed: Seed = 1,
    sampling_rate: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share of packets reported.")
    ] = 0.015625,
    watermark: Annotated[str, typer.Option(help="Initial watermark: KMIN,KMAX,PMAX.")] = DEFAULT_WATERMARK,
    dcqcn: Annotated[str | None, unset(help="Preset (paper, vendor) or JSON file.")] = None,
    buffer: Annotated[str | None, unset(help="Shared buffer of a switch, such as 16MB.")] = None,
    pfc: Annotated[
        bool | None, typer.Option("--pfc/--no-pfc", help="PFC; as in the scenario, else on.")
    ] = None,
    ecmp_seed: Annotated[
        list[str] | None, unset(help="SWITCH=SEED: the hash seed of a switch; repeatable.")
    ] = None,
    post_to: Annotated[str | None, unset(help="URL of the service to post reports to.")] = None,
    compressed: Annotated[bool, typer.Option("--gzip", help="Compress the reports.")] = False,
    int_udp: Annotated[str | None, unset(help="HOST:PORT to send binary reports to by UDP.")] = None,
    write_inventory: Annotated[
        Path | None, unset(help="Write the inventory of its switches to this file and exit.")
    ] = None,
    listen: Annotated[
        str, typer.Option(help="Address of the control interface; port 0 takes a free one.")
    ] = "127.0.0.1:9000",
    step: Annotated[bool, typer.Option("--step", help="Advance only on POST /advance.")] = False,
    pace: Annotated[float | None, unset(help="Simulated seconds per second; unlimited.")] = None,
    epoch_ns: Annotated[int | None, unset(min=0, help="Timestamp of simulated time 0.")] = None,
    as_json: Json = False,
) -> None:
    """Run a packet-level fabric under traffic: reports out, watermarks in."""
    from cli.lab import LabRun
    from cli.lab import lab as run
    from cli.lab import write_inventory as write_lab_inventory
    from lab.setup import LabOptions, LeafSpine, duration_of, ecmp_seeds_of
    from service.tuning.recordings import parse_watermark

    numbers = LeafSpine(
        leaves=leaves,
        spines=spines,
        hosts=hosts,
        rate_gbps=rate_gbps,
        uplink_gbps=uplink_gbps,
        delay_us=delay_us,
    )
    options = LabOptions(
        leaf_spine=numbers,
        topology=topology,
        scenario=scenario,
        traffic=traffic,
        duration_s=None if duration is None else duration_of(duration),
        seed=seed,
        dcqcn=dcqcn,
        buffer_bytes=None if buffer is None else quantity("--buffer", buffer, BYTES),
        pfc=pfc,
        ecmp_seeds=ecmp_seeds_of(ecmp_seed or ()),
    )
    how = LabRun(
        watermark=parse_watermark(watermark, "--watermark"),
        sampling_rate=sampling_rate,
        listen=listen,
        post_to=post_to,
        int_udp=int_udp,
        compressed=compressed,
        stepwise=step,
        pace=pace,
        epoch_ns=epoch_ns,
    )
    if write_inventory is not None:
        write_lab_inventory(options, how, write_inventory)
    else:
        run(options, how, as_json=as_json)


@app.command()
def accept(
    topology: Annotated[Path, typer.Option(help="Topology file, or a scenario file.")],
    watermark: Annotated[
        str | None, unset(help=f"KMIN,KMAX,PMAX of all switch ports, or off; {DEFAULT_WATERMARK}.")
    ] = None,
    inventory: Annotated[
        Path | None, unset(help="Inventory file to read watermarks and NICs from instead.")
    ] = None,
    dcqcn: Annotated[str | None, unset(help="Preset (paper, vendor) or JSON file.")] = None,
    buffer: Annotated[str | None, unset(help="Shared buffer of a switch, such as 16MB.")] = None,
    pfc: Annotated[
        bool | None, typer.Option("--pfc/--no-pfc", help="PFC; as in the scenario, else on.")
    ] = None,
    duration: Annotated[str, typer.Option(help="Simulated time of a collective at line rate.")] = "4ms",
    seed: Seed = 1,
    seeds: Annotated[int, typer.Option(min=1, max=100, help="Runs of each, from --seed on.")] = 1,
    bus_bandwidth: Annotated[
        float, typer.Option(help="Least bus bandwidth, as a share of the line rate.")
    ] = 0.4,
    loss: Annotated[float, typer.Option(help="Largest share of packets lost.")] = 0.0,
    paused: Annotated[float, typer.Option(help="Largest share of time that PFC holds a port.")] = 0.02,
    slowest_rank: Annotated[
        float, typer.Option(help="How much longer than the median rank's a rank's messages may take.")
    ] = 0.25,
    ecmp_spread: Annotated[
        float, typer.Option(help="How far the load of a port may be from the mean of its equals.")
    ] = 0.25,
    as_json: Json = False,
) -> None:
    """Run collectives on a declared fabric, packet by packet, and tell whether it passes (exit 0 or 1)."""
    from cli.inventory.accept import Runs
    from cli.inventory.accept import accept as run
    from lab.acceptance.criteria import Criteria
    from lab.setup import LabOptions, duration_of
    from settings.errors import InputError

    if watermark is not None and inventory is not None:
        raise InputError(
            "--watermark", None, "cannot be combined with --inventory, which reads them", "drop one"
        )
    options = LabOptions(
        topology=topology,
        seed=seed,
        dcqcn=dcqcn,
        buffer_bytes=None if buffer is None else quantity("--buffer", buffer, BYTES),
        pfc=pfc,
    )
    criteria = Criteria(
        bus_bandwidth=bus_bandwidth,
        loss=loss,
        paused=paused,
        slowest_rank=slowest_rank,
        ecmp_spread=ecmp_spread,
    )
    how = Runs(DEFAULT_WATERMARK if watermark is None else watermark, inventory, duration_of(duration), seeds)
    run(options, how, criteria, as_json=as_json)


@app.command()
def tune(
    reports: Annotated[Path, typer.Option(help="INT reports: JSON array or NDJSON, gzip allowed.")],
    topology: Annotated[Path, typer.Option(help="Topology file, or a scenario file.")],
    dcqcn: Annotated[str | None, unset(help="Preset (paper, vendor) or JSON file.")] = None,
    incumbent: Annotated[str, typer.Option(help="Current watermark: KMIN,KMAX,PMAX.")] = DEFAULT_WATERMARK,
    candidates: Annotated[int, typer.Option(help="Watermarks to try.")] = 256,
    weights: WeightsOption = "balanced",
    score: ScoreOption = "gain",
    seed: Seed = 1,
    workers: Annotated[int | None, unset(min=0, help="Worker processes.")] = None,
    second_opinion: Annotated[
        bool, typer.Option(help="Let the packet engine review the best and decide.")
    ] = True,
    what: Annotated[
        str,
        typer.Option(
            help="What to tune: watermark, and with it roles (ports by role), nic (DCQCN), path (ECMP)."
        ),
    ] = "watermark",
    as_json: Json = False,
) -> None:
    """Run one tuning round on recorded reports."""
    from cli.tune import Scoring
    from cli.tune import tune as run

    run(
        reports,
        topology,
        dcqcn,
        incumbent,
        candidates,
        Scoring(weights, score),
        what,
        seed=seed,
        n_workers=workers,
        second_opinion=second_opinion,
        as_json=as_json,
    )


@app.command()
def whatif(
    scenario: Annotated[
        Path | None, typer.Argument(help="Scenario file; none with --reports.", show_default=False)
    ] = None,
    watermark: Annotated[
        list[str] | None, unset(help="KMIN,KMAX,PMAX to predict, such as 100KB,400KB,20%; may be repeated.")
    ] = None,
    watermarks: Annotated[
        Path | None,
        unset(
            help="JSON array of objects with kmin_bytes, kmax_bytes and pmax (0 to 1), or an object with it "
            "under results."
        ),
    ] = None,
    reports: Annotated[Path | None, unset(help="INT reports to rebuild the scenario from.")] = None,
    topology: Annotated[Path | None, unset(help="Topology or scenario file, with --reports.")] = None,
    dcqcn: Annotated[str | None, unset(help="Preset (paper, vendor) or JSON file, with --reports.")] = None,
    incumbent: Annotated[
        str | None, unset(help="KMIN,KMAX,PMAX that gains are over; else the first watermark.")
    ] = None,
    weights: WeightsOption = "balanced",
    score: ScoreOption = "gain",
    engine: EngineOption = DEFAULT_ENGINE,
    seed: Seed = 1,
    workers: Annotated[int | None, unset(min=0, help="Worker processes.")] = None,
    as_json: Json = False,
) -> None:
    """Predict given watermarks on a scenario, or on recorded reports."""
    from cli.tune import Scoring
    from cli.whatif import problem_of, wanted_watermarks
    from cli.whatif import whatif as run

    problem = problem_of(scenario, reports, topology, dcqcn, incumbent)
    run(
        problem,
        wanted_watermarks(watermark or (), watermarks),
        engine,
        incumbent,
        Scoring(weights, score),
        seed=seed,
        n_workers=workers,
        as_json=as_json,
    )


@app.command("kmin-floor")
def kmin_floor(
    scenario: Annotated[Path, typer.Argument(help="Scenario file whose senders differ.", show_default=False)],
    receiver: Annotated[
        str | None, unset(help="Host that all send to; the one that most send to in the scenario.")
    ] = None,
    flows: Annotated[
        list[int] | None,
        unset(min=2, help="Flows that meet there, may be repeated; 2, 4, 8 … all."),
    ] = None,
    watermark: Annotated[
        str, typer.Option(help="KMIN,KMAX,PMAX: Kmax ÷ Kmin and Pmax to find it for.")
    ] = DEFAULT_WATERMARK,
    seed: Seed = 1,
    as_json: Json = False,
) -> None:
    """Find the least Kmin at which DCQCN flows get their share beside senders that read no ECN."""
    from cli.whatif import kmin_floors as run

    run(scenario, receiver, flows, watermark, seed=seed, as_json=as_json)


@app.command()
def decode(
    file: Annotated[
        str, typer.Argument(metavar="FILE|-", help="A UDP payload, or a capture.", show_default=False)
    ],
    hexadecimal: Annotated[bool, typer.Option("--hex", help="Payloads in hex, one per line.")] = False,
    port: Annotated[
        list[int] | None, unset(min=0, max=65535, help="Of a capture, only UDP to this port.")
    ] = None,
    int_port: Annotated[
        list[int] | None, unset(min=0, max=65535, help="UDP port of packets with INT headers; 5000.")
    ] = None,
    int_dscp: Annotated[
        list[int] | None, unset(min=0, max=63, help="DSCP of packets with INT headers.")
    ] = None,
    occupancy: Annotated[
        str, typer.Option(help="Unit of queue occupancy: bytes, cells:SIZE, packets:SIZE, unknown.")
    ] = "bytes",
    time_unit: Annotated[str, typer.Option("--time", help="Unit of timestamps: ns, us, 2^-32s.")] = "ns",
    inventory: Annotated[Path | None, unset(help="Inventory file with names and units of switches.")] = None,
) -> None:
    """Print binary telemetry reports as JSON INT reports, one per line."""
    from cli.decode import DecodeOptions
    from cli.decode import decode as run

    run(
        file,
        DecodeOptions(
            hexadecimal=hexadecimal,
            ports=tuple(port or ()),
            int_ports=tuple(int_port or (5000,)),
            int_dscps=tuple(int_dscp or ()),
            occupancy=occupancy,
            time_unit=time_unit,
            inventory=inventory,
        ),
    )


@app.command("check-config")
def check_config(
    file: Annotated[Path | None, typer.Argument(help="Settings file (YAML).", show_default=False)] = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Check a settings file and the environment, and print every setting."""
    from cli.inventory.check import check_config as run

    run(file or config, as_json=as_json)


@app.command()
def switches(
    config: Config = None,
    inventory: Annotated[Path | None, unset(help="Inventory file; push.inventory of the settings.")] = None,
    timeout: Annotated[float | None, unset(min=0.1, max=600.0, help="Seconds to wait for a switch.")] = None,
    as_json: Json = False,
) -> None:
    """Read the watermark of every switch in the inventory; nothing is written."""
    from cli.inventory.switches import switches as run

    run(config, inventory, timeout_s=timeout, as_json=as_json)


@app.command()
def nics(
    config: Config = None,
    inventory: Annotated[Path | None, unset(help="Inventory file; push.inventory of the settings.")] = None,
    timeout: Annotated[float | None, unset(min=0.1, max=600.0, help="Seconds to wait for a host.")] = None,
    as_json: Json = False,
) -> None:
    """Read the DCQCN parameters of the NICs of every host in the inventory; nothing is written."""
    from cli.inventory.nics import nics as run

    run(config, inventory, timeout_s=timeout, as_json=as_json)


@app.command("check-fabric")
def check_fabric(
    config: Config = None,
    inventory: Annotated[Path | None, unset(help="Inventory file; push.inventory of the settings.")] = None,
    topology: Annotated[Path | None, unset(help="Topology file; fabric.topology of the settings.")] = None,
    timeout: Annotated[float | None, unset(min=0.1, max=600.0, help="Seconds to wait for a device.")] = None,
    as_json: Json = False,
) -> None:
    """Check PFC, ECN, buffers and NICs of the whole fabric, hop by hop; nothing is written."""
    from cli.inventory.fabric import check_fabric as run

    run(config, inventory, topology, timeout_s=timeout, as_json=as_json)


@app.command()
def topology(
    config: Config = None,
    inventory: Annotated[Path | None, unset(help="Inventory file; push.inventory of the settings.")] = None,
    declared: Annotated[
        Path | None, unset(help="Topology file to compare with; fabric.topology of the settings.")
    ] = None,
    discovered: Annotated[
        Path | None, unset(help="What INT showed: the answer of GET /v1/topology, or its discovered.")
    ] = None,
    delay_us: Annotated[
        float, typer.Option(min=0.0, max=1e6, help="Delay of links of which none is declared.")
    ] = 1.0,
    rate_gbps: Annotated[
        float, typer.Option(min=0.001, max=1e6, help="Rate of links of which nobody gives one.")
    ] = 100.0,
    timeout: Annotated[float | None, unset(min=0.1, max=600.0, help="Seconds to wait for a switch.")] = None,
    as_json: Json = False,
) -> None:
    """Read the LLDP neighbours of every switch and print a topology file to review; nothing is written."""
    from cli.inventory.topology import topology as run
    from telemetry.neighbours.merge import Assumed

    run(
        config,
        inventory,
        declared=declared,
        discovered=discovered,
        assumed=Assumed(delay_us, rate_gbps),
        timeout_s=timeout,
        as_json=as_json,
    )


operator.add_to(app)
app.add_typer(tokens)
app.add_typer(advice)


@app.command()
def bench(
    modules: Annotated[
        list[str] | None, typer.Argument(help="Only these modules.", show_default=False)
    ] = None,
) -> None:
    """Measure speed and accuracy (from the repository)."""
    from settings.errors import InputError

    repository = Path(__file__).resolve().parents[1]
    if not (repository / "bench" / "__main__.py").is_file():
        raise InputError(
            "bench", "an installed distribution", "bench is in the repository", "clone it and run make bench"
        )
    os.chdir(repository)
    os.execv(sys.executable, [sys.executable, "-m", "bench", *(modules or [])])


@app.command()
def version(as_json: Json = False) -> None:
    """Print the version."""
    from cli.output import print_json, print_line
    from settings.version import ecntwin_version

    if as_json:
        print_json({"version": ecntwin_version()})
    else:
        print_line(f"ecntwin {ecntwin_version()}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command and ends the process: 0 done, 2 bad input, 1 anything else."""
    sys.exit(run_to_exit_code(app, arguments))


if __name__ == "__main__":
    main()
