"""A server of ecntwin's webhook contract (docs/switches/webhook.md), to start from.

    HOOK_TOKEN=... python examples/webhook_server.py 9443

It keeps its switches in a table. Put what your switches need into read and write, TLS in front, and keep the rest.
"""

import hmac
import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from urllib.parse import unquote

TABLE = {
    ("leaf1", port, 3): {"ecn": True, "kmin_bytes": 400_000, "kmax_bytes": 1_600_000, "pmax": 0.2}
    for port in ("Ethernet1", "Ethernet2")
}


def read(switch):
    """What each egress queue of the switch runs; none where the switch is not known."""
    return [{"port": port, "queue": queue, **run} for (name, port, queue), run in TABLE.items() if name == switch]


def write(switch, queues):
    """Sets these queues and no others, each of them whole: the same call may come twice."""
    for asked in queues:
        values = {key: asked[key] for key in ("ecn", "kmin_bytes", "kmax_bytes", "pmax") if key in asked}
        TABLE[switch, asked["port"], asked["queue"]] = values


class Hook(BaseHTTPRequestHandler):
    one_at_a_time = Lock()

    def serve(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        wanted = f"Bearer {os.environ['HOOK_TOKEN']}"
        if not hmac.compare_digest(self.headers.get("Authorization", "").encode(), wanted.encode()):
            return self.answer(401, {"detail": "the bearer token is not this server's"})
        parts = [unquote(part) for part in self.path.strip("/").split("/")]
        with self.one_at_a_time:
            there = read(parts[1]) if len(parts) > 1 and parts[0] == "switches" else []
            if not there:
                return self.answer(404, {"detail": f"no switch at {self.path}"})
            if self.command == "GET" and len(parts) == 2:
                return self.answer(200, {"queues": there})
            if self.command != "PUT" or parts[2:] != ["watermark"]:
                return self.answer(405, {"detail": f"{self.command} of {self.path} is not in the contract"})
            known = {(queue["port"], queue["queue"]) for queue in there}
            try:
                queues = json.loads(body)["queues"]
                foreign = {(queue["port"], queue["queue"]) for queue in queues} - known
            except (ValueError, KeyError, TypeError):
                return self.answer(400, {"detail": "the body is not in the contract; nothing was set"})
            if foreign:
                return self.answer(400, {"detail": f"{foreign} are not this switch's; nothing was set"})
            write(parts[1], queues)
        self.answer(200, {})

    do_GET = do_PUT = serve

    def answer(self, status, document):
        text = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Hook)
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()
