"""Alarms of what is wrong with switches or hosts: one for each, with the first of its sentences."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from telemetry.alarms import Finding, Subject


class OnePerNode:
    """Of one ``kind``; ``well`` is the end of the sentence on a node that has none any more."""

    def __init__(self, kind: str, switches: Collection[str], well: str) -> None:
        self._kind = kind
        self._switches = switches
        self._well = well
        self._told: frozenset[str] = frozenset()

    def findings(self, sentences: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
        """One for each node with sentences, and for those whose sentences are gone."""
        for node, said in sentences.items():
            more = f"; and {len(said) - 1} more on {node}" if len(said) > 1 else ""
            yield Finding(self._subject(node), 1.0, said[0] + more)
        for node in self._told.difference(sentences):
            yield Finding(self._subject(node), 0.0, f"{node} {self._well}")
        self._told = frozenset(sentences)

    def _subject(self, node: str) -> Subject:
        return Subject(self._kind, node, node if node in self._switches else None)
