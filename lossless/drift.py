"""Where switches and NICs differ from the operator's templates."""

from __future__ import annotations

from dataclasses import dataclass

from lossless.fabric import Fabric, Template
from lossless.report import Notes
from nics.parameters import PARAMETERS
from switches.lossless import LosslessPort
from twin.watermark import Watermark

_RULE = "drift"


def drift(notes: Notes, fabric: Fabric) -> None:
    """Notes every difference, and what a template says and the platform does not show."""
    if fabric.topology is not None:
        known = set(fabric.roles.values())
        for given in fabric.templates.values():
            for role in sorted(given.by_role.keys() - known):
                notes.unknown(
                    _RULE, "the fabric", "", f"which port has role {role} of template {given.name} is"
                )
    for (switch, name), port in fabric.ports.items():
        template = fabric.templates.get(switch)
        if template is None:
            continue
        wanted = template.by_role.get(fabric.roles.get((switch, name), ""), template.watermark)
        if template.by_role and fabric.topology is None:
            notes.unknown(_RULE, switch, "", "the role of its ports is")
            wanted = None
        _of_port(_Comparison(notes, switch, name, template.name), template, port, wanted)
    for host, reading in fabric.hosts.items():
        template = fabric.host_templates.get(host)
        for nic in () if template is None else reading.nics:
            assert template is not None
            compared = _Comparison(notes, host, nic.nic, template.name)
            for name, value in template.dcqcn.items():
                text = PARAMETERS[name].text
                compared.said(name, None if name not in nic.values else text(nic.values[name]), text(value))


@dataclass(frozen=True, slots=True)
class _Comparison:
    """Of one port or NIC, ``place`` of ``node``."""

    notes: Notes
    node: str
    place: str
    template: str

    def said(self, what: str, runs: str | None, wanted: str) -> None:
        """Notes where it runs something else than wanted; None: that is not known."""
        if runs is None:
            self.notes.unknown(_RULE, self.node, self.place, f"{what} is")
        elif runs != wanted:
            found = f"{what} is {runs}, and template {self.template} has {wanted}"
            remedy = "set it back, or correct the template"
            self.notes.fault(_RULE, self.node, self.place, found, remedy, "warning")


def _of_port(compared: _Comparison, template: Template, port: LosslessPort, wanted: Watermark | None) -> None:
    if template.pfc is None:
        return
    compared.said("PFC", _priorities(port.pfc), _priorities(template.pfc))
    for one in port.priorities:
        if one.priority not in template.pfc:
            continue
        of = f"of priority {one.priority}"
        if wanted is not None:
            known = one.queue is not None and one.queue in port.watermarks
            runs = port.watermarks[one.queue] if known and one.queue is not None else None
            compared.said(f"the watermark {of}", str(runs or "off") if known else None, str(wanted))
        if template.headroom_bytes is not None:
            compared.said(f"the headroom {of}", _bytes(one.headroom_bytes), f"{template.headroom_bytes} B")
        if (threshold := _threshold(template.alpha, template.xoff_bytes)) is not None:
            compared.said(f"the XOFF threshold {of}", _threshold(one.alpha, one.xoff_bytes), threshold)


def _threshold(alpha: float | None, xoff_bytes: int | None) -> str | None:
    return _bytes(xoff_bytes) if alpha is None else f"alpha {alpha:g}"


def _bytes(value: int | None) -> str | None:
    return None if value is None else f"{value} B"


def _priorities(pfc: frozenset[int]) -> str:
    return f"on for {', '.join(map(str, sorted(pfc)))}" if pfc else "off"
