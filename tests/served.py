"""Serve files, or JSON as OpenAI's API does, on 127.0.0.1, with chosen replies and faults."""

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

# (number of a request, counted from 1; its content) -> status, body and, optionally, headers. A text is sent
# unchanged as the body; None cuts the connection.
Behaviour = Callable[[int, Any], tuple[int, Any] | tuple[int, Any, dict[str, str]]]


@contextmanager
def run_server(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """Call `answer` for each request, in threads; yield the server's address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            answer(self)

        do_HEAD = do_POST = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Chat:
    """Record of the requests that arrived, and the function `behave` that answers them.

    `pages`: path -> body of the reply to a GET request; such requests are not recorded. With `pages` None,
    `behave` answers GET requests, too. `authorizations`: the header `Authorization` of each request.
    """

    def __init__(self, behave: Behaviour, pages: dict[str, Any] | None) -> None:
        self.behave, self.requests, self.paths, self.authorizations = behave, [], [], []
        self.pages, self.lock = pages, threading.Lock()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        if handler.command == "GET" and self.pages is not None:
            page = self.pages.get(handler.path)
            self.send(handler, 404 if page is None else 200, page or {})
            return
        length = int(handler.headers["Content-Length"] or 0)
        content = handler.rfile.read(length)
        if len(content) < length:  # the client has closed the connection meanwhile
            handler.close_connection = True
            return
        request = json.loads(content or "null")
        with self.lock:
            self.requests.append(request)
            self.paths.append(handler.path)
            self.authorizations.append(handler.headers.get("Authorization"))
            number = len(self.requests)
        self.send(handler, *self.behave(number, request))

    def send(self, handler: BaseHTTPRequestHandler, status: int, body: Any, *headers: dict[str, str]) -> None:
        if body is None:
            handler.close_connection = True
            return
        content = (body if isinstance(body, str) else json.dumps(body)).encode()
        handler.send_response(status)
        for name, value in (headers[0] if headers else {}).items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)


def completion(text: str) -> tuple[int, dict[str, Any]]:
    return 200, {"choices": [{"message": {"role": "assistant", "content": text}}]}


@contextmanager
def serve_json(behave: Behaviour, pages: dict[str, Any] | None = None) -> Iterator[tuple[Chat, str]]:
    """Answer requests by `behave` and `pages`, see `Chat`; yield the record and the API's address."""
    chat = Chat(behave, pages)
    with run_server(chat.answer) as address:
        yield chat, f"{address}/v1"


@dataclass
class Publisher:
    """A server of files that counts its requests."""

    files: dict[str, bytes] = field(default_factory=dict)
    breaks_after: list[int] = field(default_factory=list)  # bytes sent of each of the next replies
    without_length: bool = False  # sends no Content-Length
    # While cleared, replies stop after half of the bytes that are to be sent (see `breaks_after`).
    may_finish: threading.Event = field(default_factory=threading.Event)
    headers: dict[str, str] = field(default_factory=dict)
    requests: int = 0
    accepted_encodings: list[str | None] = field(default_factory=list)  # of each request
    statuses: list[int] = field(default_factory=list)  # of the next replies; a file is sent with 200 only
    address: str = ""

    def url(self, name: str) -> str:
        return f"{self.address}/{name}"

    def __enter__(self) -> "Publisher":
        self.may_finish.set()
        self.server = run_server(self.answer)
        self.address = self.server.__enter__()
        return self

    def __exit__(self, *error) -> None:
        self.server.__exit__(*error)

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        self.requests += 1
        self.accepted_encodings.append(handler.headers.get("Accept-Encoding"))
        name = urlsplit(handler.path).path.rpartition("/")[2]
        status = self.statuses.pop(0) if self.statuses else 200 if name in self.files else 404
        content, headers = b"", self.headers
        if status == 200:
            content = self.files[name]
            digest = hashlib.sha256(content).hexdigest()
            headers = {"Content-Type": "application/octet-stream", "ETag": f'"{digest}"', **headers}
        handler.send_response(status)
        # A client that is told that the connection closes sends no further request over it.
        handler.send_header("Connection", "close")
        for header, value in headers.items():
            handler.send_header(header, value)
        if not self.without_length:
            handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        if handler.command == "HEAD":
            return
        end = self.breaks_after.pop(0) if self.breaks_after else len(content)
        handler.wfile.write(content[: end // 2])
        self.may_finish.wait()
        handler.wfile.write(content[end // 2 : end])
