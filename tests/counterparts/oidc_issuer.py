"""An issuer of OpenID Connect on loopback: discovery, keys, tokens signed with them; may be taken away."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


@dataclass
class Issuer:
    """``away`` answers 503 to everything; ``asked`` are the paths that were asked for; with ``names_keys``
    keys and tokens have ids.
    """

    url: str = ""
    keys: dict[str, Key] = field(default_factory=dict)
    away: bool = False
    asked: list[str] = field(default_factory=list)
    says_it_is: str | None = None
    names_keys: bool = True

    def add_rsa(self, kid: str) -> Key:
        self.keys[kid] = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
        return self.keys[kid]

    def add_ec(self, kid: str) -> Key:
        self.keys[kid] = ec.generate_private_key(ec.SECP256R1())
        return self.keys[kid]

    def claims(self, **changes: Any) -> dict[str, Any]:
        now_s = int(time.time())
        claims = {
            "iss": self.url,
            "aud": "ecntwin",
            "sub": "42",
            "preferred_username": "ada",
            "scope": "openid net.read",
            "iat": now_s,
            "exp": now_s + 3_600,
        } | changes
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, kid: str = "one", *, key: Key | None = None, **changes: Any) -> str:
        """A token signed with that key of the issuer's, or with another that says it is that one."""
        signing = key or self.keys[kid]
        algorithm = "RS256" if isinstance(signing, rsa.RSAPrivateKey) else "ES256"
        headers = {"kid": kid} if self.names_keys else None
        return jwt.encode(self.claims(**changes), signing, algorithm, headers=headers)

    def public_pem(self, kid: str) -> bytes:
        return self.keys[kid].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def document(self, path: str) -> dict[str, Any] | None:
        if path == "/.well-known/openid-configuration":
            return {"issuer": self.says_it_is or self.url, "jwks_uri": f"{self.url}/keys"}
        if path == "/keys":
            return {"keys": [self._public(kid, key) for kid, key in self.keys.items()]}
        return None

    def _public(self, kid: str, key: Key) -> dict[str, Any]:
        public = key.public_key()
        kind = (
            jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
        )
        found: dict[str, Any] = kind.to_jwk(public, as_dict=True)  # type: ignore[arg-type]
        return found | {"use": "sig"} | ({"kid": kid} if self.names_keys else {})


@contextmanager
def issuing(tls: ssl.SSLContext | None = None) -> Iterator[Issuer]:
    """Serves an issuer with one RSA key, ``one``, on a free port."""
    issuer = Issuer()
    issuer.add_rsa("one")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.asked.append(self.path)
            document = None if issuer.away else issuer.document(self.path)
            content = json.dumps(document).encode() if document else b"gone"
            self.send_response(200 if document else 503)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    issuer.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
