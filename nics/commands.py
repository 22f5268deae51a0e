"""What is run on a host: one script that reads every NIC, one that sets values, and what they say.

Scripts are for any POSIX shell, with ``flock`` of util-linux or BusyBox. Each is a function called in its
last line, so that a script cut short by a lost connection does nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

COUNTERS = (
    "np_cnp_sent",
    "np_ecn_marked_roce_packets",
    "rp_cnp_handled",
    "rp_cnp_ignored",
    "out_of_sequence",
    "packet_seq_err",
    "roce_adp_retrans",
)
"""Counters under ``hw_counters`` (drivers/infiniband/hw/mlx5/counters.c)."""

READ = r"""
main() {
    export LC_ALL=C
    cd "$1/class/net" 2>/dev/null || { echo "missing $1/class/net"; return 0; }
    for ib in ../infiniband/*; do
        [ -e "$ib" ] || continue
        driver=$(readlink -f "$ib/device/driver") pci=$(readlink -f "$ib/device")
        echo "nic ${ib##*/} ${driver##*/} ${pci##*/}"
        set --
        for net in "$ib"/device/net/*; do
            [ -e "$net" ] || continue
            net=${net##*/}
            echo "net $net"
            [ -f "$net/speed" ] && set -- "$@" "$net/speed"
            for file in "$net"/ecn/roce_[nr]p/* "$net"/ecn/roce_[nr]p/enable/*; do
                [ -f "$file" ] && set -- "$@" "$file"
            done
            command -v ethtool >/dev/null && ethtool -S "$net" 2>/dev/null |
                sed -n 's/^ *\([rt]x_prio[0-7]_pause\): *\([0-9]*\) *$/counter \1 \2/p'
        done
        for file in "$ib"/ports/1/hw_counters/* ../../kernel/debug/mlx5/"${pci##*/}"/cc_params/* \
            ../../kernel/debug/bnxt_re/"${pci##*/}"/cc_config/* \
            ../../kernel/debug/bnxt_re/"${ib##*/}"/cc_config/*; do
            [ -f "$file" ] && set -- "$@" "$file"
        done
        [ $# -eq 0 ] || grep -H '' "$@" 2>&1 | sed 's/^/file /'
    done
    echo end
}
main "$@"
"""

# What cat complains of would come in the middle of an answer: both come over one channel. An undo (each)
# passes over a NIC that is gone, whose folder of files went with it.
SET = r"""
main() {
    export LC_ALL=C
    trap '' HUP INT TERM PIPE
    cd "$1/class/net" 2>/dev/null && exec 9<. || { echo "missing $1/class/net"; return 0; }
    command -v flock >/dev/null || { echo "missing flock"; return 0; }
    flock -w 1 9 || { echo "busy"; return 0; }
    gone() { [ "$1" = each ] && [ ! -d "${2%/*}" ]; }
    found=
    while read -r file was wanted; do
        gone "$2" "$file" && continue
        found=yes
        now=$(cat "$file" 2>/dev/null) || { echo "missing $file"; return 0; }
        [ "$now" = "$was" ] || [ "$now" = "$wanted" ] || { echo "foreign $file $now"; return 0; }
    done <<END
$table
END
    [ -n "$found" ] || { echo "gone"; return 0; }
    failed=
    while read -r file was wanted; do
        gone "$2" "$file" && continue
        [ "$(cat "$file" 2>/dev/null)" = "$wanted" ] && continue
        { echo "$wanted" >"$file"; } 2>/dev/null
        now=$(cat "$file" 2>/dev/null)
        [ "$now" = "$wanted" ] && continue
        echo "refused $file $now"
        failed=yes
        [ "$2" = whole ] && break
    done <<END
$table
END
    [ -z "$failed" ] && { echo done; return 0; }
    [ "$2" = whole ] || return 0
    while read -r file was wanted; do
        [ "$(cat "$file" 2>/dev/null)" = "$was" ] && continue
        { echo "$was" >"$file"; } 2>/dev/null
        now=$(cat "$file" 2>/dev/null)
        [ "$now" = "$was" ] || echo "left $file $now"
    done <<END
$table
END
    echo undone
}
main "$@"
"""

_SAFE = re.compile(r"[A-Za-z0-9_.:/-]+")


@dataclass(frozen=True, slots=True)
class FileChange:
    """``path`` is relative to ``class/net`` of sysfs."""

    path: str
    was: int
    wanted: int


def set_script(changes: Iterable[FileChange]) -> str:
    """Sets each file from ``was`` to ``wanted``, the whole under a lock. Its second argument is ``whole``, or
    for an undo ``each``.

    Raises ``ValueError`` for a path that a shell would read as something else.
    """
    lines = []
    for one in changes:
        if not _SAFE.fullmatch(one.path):
            raise ValueError(f"no path of a NIC: {one.path!r}")
        lines.append(f"{one.path} {one.was} {one.wanted}")
    return "table='" + "\n".join(lines) + "'\n" + SET


@dataclass(slots=True)
class FoundNic:
    """A NIC as ``READ`` shows it: text by path, paths relative to ``class/net``."""

    rdma: str
    driver: str
    pci: str
    nets: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The network name of the port; representors of virtual functions have no ECN files."""
        with_ecn = (net for net in self.nets if any(path.startswith(f"{net}/ecn/") for path in self.files))
        return next(with_ecn, self.nets[0] if self.nets else self.rdma)


def found_nics(said: str) -> list[FoundNic] | None:
    """What ``READ`` said, in the order of the host; None where its end is missing."""
    nics: list[FoundNic] = []
    for line in said.splitlines():
        kind, _, rest = line.partition(" ")
        words = rest.split()
        if kind in ("nic", "net") and not all(map(_SAFE.fullmatch, words)):
            continue  # no name of the kernel's
        if kind == "nic" and len(words) == 3:
            nics.append(FoundNic(words[0], words[1], words[2]))
        elif kind == "net" and nics and len(words) == 1:
            nics[-1].nets.append(words[0])
        elif kind == "counter" and nics and len(words) == 2 and words[1].isdecimal():
            nics[-1].counters[words[0]] = int(words[1])
        elif kind == "file" and nics:
            path, _, text = rest.rpartition(":")
            nics[-1].files[path] = text
        elif line == "end":
            return nics
    return None


def numbers(files: Mapping[str, str], folder: str) -> dict[str, int]:
    """The whole numbers in the files of a folder, by name; what is no number is left out."""
    found = {}
    for path, text in files.items():
        place, _, name = path.rpartition("/")
        if place == folder and re.fullmatch(r"[0-9]{1,20}", text.strip()):
            found[name] = int(text)
    return found
