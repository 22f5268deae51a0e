"""Policies (QoS profiles of EOS, queuing policy maps of NX-OS) that ports are bound to, and a role's own.

A policy is shared by its ports. Ports of a role get a copy of theirs, named ``ecntwin-ROLE-…``, and are bound
to it. The policy they had is never edited: binding them to it again takes the change back.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from switches.adapter import own_name, own_prefix

Section: TypeAlias = "dict[str, Section]"
Line: TypeAlias = "tuple[tuple[str, ...], str]"
"""A line of the configuration, and those it is nested below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """Policies by name; ``bound`` is what ports name themselves, ``usual`` the policy of those that name
    none.

    ``heading`` begins the section of a policy, ``binding`` the line of a port that names one.
    ``detached``: a port's old policy is taken off before another is put on.
    """

    heading: str
    binding: str
    named: Mapping[str, Section]
    bound: Mapping[str, str]
    usual: str | None = None
    detached: bool = False

    def of(self, port: str) -> str | None:
        return self.bound.get(port, self.usual)

    def users(self, policy: str) -> set[str]:
        """The ports that name it themselves."""
        return {port for port, name in self.bound.items() if name == policy}

    def own(self, role: str, policy: str, ports: set[str]) -> str:
        """The name of the policy of these ports of a role alone in place of ``policy``: the same where it is
        theirs alone already.
        """
        if policy.startswith(own_prefix(role)) and policy != self.usual and self.users(policy) <= ports:
            return policy
        return own_name(role, policy, lambda name: self.users(name) <= ports)

    def copied(self, policy: str, own: str) -> Iterator[Line]:
        """The lines that make ``own`` a copy, and nothing but a copy, of ``policy``."""
        if own in self.named:
            yield self.removed(own)
        yield from _written((self.heading + own,), self.named[policy])

    def rebound(self, port: str, policy: str | None) -> Iterator[Line]:
        """The lines with which a port names that policy (None: none) instead of what it names now."""
        now, place = self.bound.get(port), (f"interface {port}",)
        if now == policy:
            return
        if now is not None and (policy is None or self.detached):
            yield place, f"no {self.binding}{now}"
        if policy is not None:
            yield place, self.binding + policy

    def outlasts(self, policy: str | None, role: str | None, leaving: Container[str]) -> bool:
        """Whether it is the role's own, and ports beside those ``leaving`` it name it."""
        if policy is None or role is None or not policy.startswith(own_prefix(role)):
            return False
        return any(port not in leaving for port in self.users(policy))

    def removed(self, policy: str) -> Line:
        return (), f"no {self.heading}{policy}"

    def spare(self, role: str, bound: Mapping[str, str | None]) -> Iterator[Line]:
        """The lines that remove the role's own policies without a port, once ports are ``bound`` so."""
        used = {**self.bound, **bound}.values()
        for name in self.named:
            if name.startswith(own_prefix(role)) and name != self.usual and name not in used:
                yield self.removed(name)


def _written(path: tuple[str, ...], section: Section) -> Iterable[Line]:
    for line, inner in section.items():
        if inner:
            yield from _written((*path, line), inner)
        else:
            yield path, line
