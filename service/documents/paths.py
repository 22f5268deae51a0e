"""What a round found of elephants that collide on equal-cost ports, as a document."""

from __future__ import annotations

from typing import Self

from service.documents.base import Document, Figure
from telemetry.network.collisions import PortLoad
from telemetry.topology import GBPS
from twin.paths.result import Goodput, Hashed, Moved, PathAdvice, PathFix, PathMove


class PortLoadDocument(Document):
    """One of the equal-cost ports, over the window."""

    port: str
    """Name of the port."""
    rate_gbps: float
    """Its rate, in Gbit/s."""
    load_gbps: float
    """What it carries of all traffic, in Gbit/s."""
    elephants: int
    """Elephants on it that any of these ports could carry."""

    @classmethod
    def of(cls, one: PortLoad) -> Self:
        return cls(
            port=one.name,
            rate_gbps=one.rate_bytes_per_s / GBPS,
            load_gbps=one.load_bytes_per_s / GBPS,
            elephants=len(one.elephants),
        )


class PathMoveDocument(Document):
    """One elephant to an equal-cost port, as another source port or a pinned path would send it."""

    src: str
    """Source address."""
    dst: str
    """Destination address."""
    sport: int
    """UDP source port."""
    dport: int
    """UDP destination port."""
    protocol: int
    """IP protocol."""
    src_host: str
    """Name of the sender."""
    dst_host: str
    """Name of the receiver."""
    before: str
    """The port that it takes now."""
    after: str
    """The port that it is to take."""

    @classmethod
    def of(cls, one: PathMove) -> Self:
        return cls.from_attributes(one, **one.flow._asdict())


class PathGoodputDocument(Document):
    """Goodput of the elephants on the ports, of one while it sends: all their payload by all the time that it
    took, by one engine.
    """

    engine: str
    """Name of the engine."""
    before_gbps: Figure
    """On their paths now, in Gbit/s."""
    after_gbps: Figure
    """After the moves, in Gbit/s."""
    window_s: float
    """Seconds of traffic that it ran."""

    @classmethod
    def of(cls, one: Goodput) -> Self:
        return cls.from_attributes(
            one, before_gbps=one.before_bytes_per_s / GBPS, after_gbps=one.after_bytes_per_s / GBPS
        )


class MovedDocument(Document):
    """What the moves would do; figures of the elephants are of all that cross the equal-cost ports."""

    advised: bool
    """Whether the elephants surely get more by more than the margin, and no engine contradicts."""
    moves: list[PathMoveDocument]
    """The fewest moves that give about as much as more moves would."""
    times: Figure
    """How many times their goodput elephants have then, by both engines."""
    times_error: Figure
    """Standard error of that."""
    first: PathGoodputDocument
    """By the round's engine."""
    second: PathGoodputDocument | None
    """By the second engine; null where it did not run."""
    gain: Figure
    """Predicted gain over what runs now, of all traffic, under the watermark that runs."""
    gain_error: Figure
    """Standard error of that gain."""
    second_gain: Figure
    """That gain by the second engine alone; null where it did not run."""

    @classmethod
    def of(cls, one: Moved) -> Self:
        return cls.from_attributes(
            one,
            moves=[PathMoveDocument.of(move) for move in one.moves],
            first=PathGoodputDocument.of(one.first),
            second=None if one.second is None else PathGoodputDocument.of(one.second),
        )


class HashedDocument(Document):
    """What another ECMP hash seed of the switch would do: flows take any of the equal-cost ports alike."""

    seeds: int
    """How many draws of the ports were tried."""
    times: Figure
    """How many times their goodput elephants have then, the mean over the draws."""
    times_spread: Figure
    """Standard deviation over the draws: what an unknown hash function leaves open."""
    gain: Figure
    """Predicted gain over what runs now, the mean over the draws."""
    gain_spread: Figure
    """Standard deviation of the gain over the draws."""

    @classmethod
    def of(cls, one: Hashed) -> Self:
        return cls.from_attributes(one, seeds=one.n_seeds)


class PathFixDocument(Document):
    """Elephants that share ports of one switch while equal-cost ports have room, and what would help."""

    switch: str
    """The switch."""
    sentence: str
    """The collision and what would help, in a sentence."""
    ratio: Figure
    """Load of the fullest port ÷ the mean over the equal-cost ports."""
    ports: list[PortLoadDocument]
    """The equal-cost ports, the fullest first."""
    moved: MovedDocument | None
    """The best moves; null where none helps, or nothing was predicted."""
    hashed: HashedDocument | None
    """What another hash seed would do; null where nothing was predicted."""
    hash_setting: str | None = None
    """What sets it on the switch, in the words of its platform; null where that is not known."""

    @classmethod
    def of(cls, one: PathFix) -> Self:
        return cls.from_attributes(
            one,
            switch=one.collision.switch,
            ratio=one.collision.ratio,
            ports=[PortLoadDocument.of(port) for port in one.collision.ports],
            moved=None if one.moved is None else MovedDocument.of(one.moved),
            hashed=None if one.hashed is None else HashedDocument.of(one.hashed),
        )


class PathsDocument(Document):
    """Elephants that collide. It is advice: ecntwin sets no paths, and a hash only where asked to."""

    sentence: str
    """What the window shows, in a sentence."""
    notes: list[str]
    """Sentences on what could not be seen."""
    collisions: list[PathFixDocument]
    """The collisions, the worst first; the three worst are predicted."""
    runs: int
    """Runs that it took."""
    traffic_s: float
    """Seconds of traffic that the round's engine ran each time; 0 without a run."""

    @classmethod
    def of(cls, found: PathAdvice) -> Self:
        return cls.from_attributes(
            found,
            notes=list(found.notes),
            collisions=[PathFixDocument.of(one) for one in found.fixes],
            runs=found.n_runs,
        )
