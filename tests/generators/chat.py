"""Serve an API like OpenAI's on 127.0.0.1, with chosen replies and faults."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Chat:
    """Record of the requests that arrived, and the function that answers them.

    `behave` takes the number of a request, counted from 1, and its content. It returns a status, a body
    (a text is sent unchanged, None cuts the connection) and, optionally, headers.
    """

    def __init__(self, behave: Callable[[int, dict[str, Any]], tuple[int, Any]]) -> None:
        self.behave, self.requests, self.paths, self.keys, self.flying, self.peak = behave, [], [], [], 0, 0
        self.lock = threading.Lock()


def completion(text: str) -> tuple[int, dict[str, Any]]:
    return 200, {"choices": [{"message": {"role": "assistant", "content": text}}]}


@contextmanager
def served(behave: Callable[[int, dict[str, Any]], tuple[int, Any]]) -> Iterator[tuple[Chat, str]]:
    chat = Chat(behave)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or "null")
            with chat.lock:
                chat.requests.append(request)
                chat.paths.append(self.path)
                chat.keys.append(self.headers.get("Authorization"))
                chat.flying += 1
                chat.peak = max(chat.peak, chat.flying)
                number = len(chat.requests)
            try:
                status, body, *headers = chat.behave(number, request)
            finally:
                with chat.lock:
                    chat.flying -= 1
            if body is None:
                self.close_connection = True
                return
            content = (body if isinstance(body, str) else json.dumps(body)).encode()
            self.send_response(status)
            for name, value in (headers[0] if headers else {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield chat, f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
