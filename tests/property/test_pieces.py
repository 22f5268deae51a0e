"""Bodies are split as by a reader that goes byte by byte, wherever blocks begin."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from telemetry.decode import pieces
from telemetry.decode.pieces import ArrayCut, Break, lines

BODIES = st.lists(st.sampled_from([*'[]{},"\\ \n1a', '"a,]"', '\\"', '{"a":[1,"}"]}', '"\\\\"']), max_size=60)
CUT = tuple[list[bytes], Break | None]


def cut(text: bytes) -> CUT:
    """The elements as ``ArrayCut`` should give them, a byte at a time."""
    at = start = text.index(b"[") + 1
    found: list[bytes] = []
    depth, quote_at = 0, None
    while at < len(text):
        sign = text[at : at + 1]
        if sign == b"\\":  # outside of strings it is no JSON, and a quote behind it is none there either
            at += text[at + 1 : at + 2] in (b'"', b"\\")
        elif sign == b'"':
            quote_at = at if quote_at is None else None
        elif quote_at is not None:
            pass
        elif sign in (b"[", b"{"):
            depth += 1
        elif sign in (b"]", b"}") and depth:
            depth -= 1
        elif sign == b"}":
            return found, Break(at, "an unmatched '}'", start)
        elif sign == b"]":
            if found or text[start:at].strip():
                found.append(text[start:at])
            rest = text[at + 1 :].lstrip()
            return found, Break(at + 1, f"{rest.decode()!r} after the array's end", at + 1) if rest else None
        elif sign == b"," and not depth:
            found.append(text[start:at])
            start = at + 1
        at += 1
    if quote_at is not None:
        return found, Break(quote_at, "a string without its closing quote", start)
    return found, Break(len(text), "the end of the body inside the array", start)


@pytest.mark.parametrize("block", [1, 2, 3, 7, 1 << 20])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(BODIES)
@example(list('"\\\\",1]'))
@example(list("\\\\\\"))
def test_arrays_are_cut_at_their_own_commas(
    block: int, monkeypatch: pytest.MonkeyPatch, signs: list[str]
) -> None:
    monkeypatch.setattr(pieces, "BLOCK_BYTES", block)
    text = ("[" + "".join(signs)).encode()
    one = ArrayCut(text)
    found = [
        text[start:stop]
        for some in one
        for start, stop in zip(some.start.tolist(), some.stop.tolist(), strict=True)
    ]
    wanted, broken = cut(text)
    assert found == wanted
    assert (one.broken is None) == (broken is None)
    if one.broken is not None and broken is not None:
        assert (one.broken.at, one.broken.rest) == (broken.at, broken.rest)
        assert one.broken.received[:20] == broken.received[:20]


@pytest.mark.parametrize("block", [1, 2, 5, 1 << 20])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(alphabet="a \n", max_size=40))
def test_lines_are_numbered_as_an_editor_does(block: int, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(pieces, "BLOCK_BYTES", block)
    body = text.encode()
    found = [
        (line, body[start:stop])
        for some in lines(body)
        if some.line is not None
        for line, start, stop in zip(some.line.tolist(), some.start.tolist(), some.stop.tolist(), strict=True)
    ]
    assert found == [(number, line) for number, line in enumerate(body.split(b"\n"), 1) if line]
