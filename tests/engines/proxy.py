"""A proxy between two `vllm serve`: one computes prompts, the other generates.

    proxy.py --prefill http://127.0.0.1:8100 --decode http://127.0.0.1:8200 [--port 8000]

For each POST it asks the first for one token, with kv_transfer_params, and the second for the answer, with the params
that came back. Where the first does not answer, or what it handed over does not come within `timeout`, the second
computes alone. Both get one X-Request-Id, which NixlPushConnector knows a request by.
"""
import argparse
import contextlib
import http.client
import http.server
import json
import threading
import urllib.parse
import uuid

ASKED = {"do_remote_decode": True, "do_remote_prefill": False, "remote_engine_id": None, "remote_block_ids": None,
         "remote_host": None, "remote_port": None}


class Unanswered(Exception):
    """The other side could not be reached, ended, refused, or took longer than it may."""


def post(url, path, body, request_id=None, timeout=None):
    """What it answers, as JSON."""
    place = urllib.parse.urlparse(url)
    with contextlib.closing(http.client.HTTPConnection(place.hostname, place.port, timeout=timeout)) as connection:
        try:
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json",
                                                                **({"X-Request-Id": request_id} if request_id else {})})
            answer = connection.getresponse()
            said = answer.read()
        except (OSError, http.client.HTTPException) as why:
            raise Unanswered(f"{url}: {type(why).__name__}: {why}") from why
    if answer.status != 200:
        raise Unanswered(f"{url}: {answer.status} {said.decode(errors='replace')[:500]}")
    return json.loads(said)


class Proxy:
    """Serves at `url` until it is closed. `counts`: requests handed over, computed alone, and given up while waiting."""

    def __init__(self, prefill, decode, port=0, timeout=None):
        self.prefill, self.decode, self.timeout = prefill, decode, timeout
        self.counts, self._lock = {"handed over": 0, "alone": 0, "given up": 0}, threading.Lock()
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                try:
                    status, answer = 200, proxy.answer(self.path, body)
                except Unanswered as why:
                    status, answer = 502, {"error": str(why)}
                said = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, path, body):
        request_id, params = str(uuid.uuid4()), None
        try:
            first = {**body, "max_tokens": 1, "min_tokens": 1, "stream": False, "kv_transfer_params": ASKED}
            params = post(self.prefill, path, first, request_id).get("kv_transfer_params")
        except Unanswered:
            pass
        if params:
            try:
                answer = post(self.decode, path, {**body, "kv_transfer_params": params}, request_id, self.timeout)
                self._count("handed over")
                return answer
            except Unanswered:
                self._count("given up")
        answer = post(self.decode, path, body)
        self._count("alone")
        return answer

    def _count(self, what):
        with self._lock:
            self.counts[what] += 1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--prefill", required=True)
    options.add_argument("--decode", required=True)
    options.add_argument("--port", type=int, default=8000)
    options.add_argument("--timeout", type=float, help="seconds; none: it waits as long as vLLM does")
    args = options.parse_args()
    with Proxy(args.prefill, args.decode, args.port, args.timeout) as proxy:
        print(f"serving at {proxy.url}", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
