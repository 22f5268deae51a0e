"""The kernel's files of NICs as a tree of plain files: sysfs of MLNX_OFED, or debugfs upstream."""

from __future__ import annotations

from pathlib import Path

from nics.parameters import PARAMETERS, Values

DEFAULTS: Values = {name: one.default for name, one in PARAMETERS.items()}
COUNTED = {
    "np_cnp_sent": 120,
    "np_ecn_marked_roce_packets": 130,
    "rp_cnp_handled": 99,
    "rp_cnp_ignored": 1,
    "out_of_sequence": 7,
}


class Sysfs:
    """``folder`` is what ``/sys`` is on a host."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "class" / "net").mkdir(parents=True)
        (folder / "class" / "infiniband").mkdir()

    def add(
        self,
        nic: str,
        *,
        values: Values = DEFAULTS,
        debugfs: bool = False,
        driver: str = "mlx5_core",
        rate_mbit: int = 100_000,
        rdma: str = "mlx5_",
        counted: Values = COUNTED,
    ) -> None:
        number = len(list((self.folder / "class" / "infiniband").iterdir()))
        rdma, pci = f"{rdma}{number}", f"0000:{0x3B + number:02x}:00.0"
        device = self.folder / "devices" / pci
        net = device / "net" / nic
        net.mkdir(parents=True)
        (net / "speed").write_text(f"{rate_mbit}\n")
        drivers = self.folder / "bus" / driver
        drivers.mkdir(parents=True, exist_ok=True)
        (device / "driver").symlink_to(drivers)
        (self.folder / "class" / "net" / nic).symlink_to(net)
        ib = device / "infiniband" / rdma
        counters = ib / "ports" / "1" / "hw_counters"
        counters.mkdir(parents=True)
        for name, value in {**counted, "lifespan": 10}.items():
            (counters / name).write_text(f"{value}\n")
        (ib / "device").symlink_to(device)
        (self.folder / "class" / "infiniband" / rdma).symlink_to(ib)
        if driver != "mlx5_core":
            return
        for side in ("rp", "np"):
            enable = net / "ecn" / f"roce_{side}" / "enable"
            if not debugfs:
                enable.mkdir(parents=True)
                for priority in range(8):
                    (enable / str(priority)).write_text(f"{int(priority == 3)}\n")
        for name, value in values.items():
            place = self.debug_file(pci, name) if debugfs else self.file(nic, name)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(f"{value}\n")

    def file(self, nic: str, name: str) -> Path:
        return self.folder / "class" / "net" / nic / "ecn" / f"roce_{PARAMETERS[name].side}" / name

    def debug_file(self, pci: str, name: str) -> Path:
        return self.folder / "kernel" / "debug" / "mlx5" / pci / "cc_params" / PARAMETERS[name].debug_name

    def value(self, nic: str, name: str) -> int:
        return int(self.file(nic, name).read_text())

    def write(self, nic: str, name: str, value: object) -> None:
        self.file(nic, name).write_text(f"{value}\n")
