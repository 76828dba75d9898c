"""A server on 127.0.0.1 that speaks as OpenAI's does, and misbehaves as it is told."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Chat:
    """What was asked, and how it is answered.

    `behave` is given the number of the request from 1 and the question, and returns a status, a body
    (a text: as it stands; None: the connection is cut) and, where there are some, headers.
    """

    def __init__(self, behave: Callable[[int, dict[str, Any]], tuple[int, Any]]) -> None:
        self.behave, self.asked, self.keys, self.flying, self.most = behave, [], [], 0, 0
        self.lock = threading.Lock()


def said(text: str) -> tuple[int, dict[str, Any]]:
    return 200, {"choices": [{"message": {"role": "assistant", "content": text}}]}


@contextmanager
def served(behave: Callable[[int, dict[str, Any]], tuple[int, Any]]) -> Iterator[tuple[Chat, str]]:
    chat = Chat(behave)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with chat.lock:
                chat.asked.append(asked)
                chat.keys.append(self.headers.get("Authorization"))
                chat.flying += 1
                chat.most = max(chat.most, chat.flying)
                number = len(chat.asked)
            try:
                status, body, *headers = chat.behave(number, asked)
            finally:
                with chat.lock:
                    chat.flying -= 1
            if body is None:
                self.close_connection = True
                return
            sent = (body if isinstance(body, str) else json.dumps(body)).encode()
            self.send_response(status)
            for name, value in (headers[0] if headers else {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

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
