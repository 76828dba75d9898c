"""Serve files on 127.0.0.1 with chosen faults."""

import hashlib
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


@dataclass
class Publisher:
    """A server of files that counts its requests."""

    files: dict[str, bytes] = field(default_factory=dict)
    breaks_after: list[int] = field(default_factory=list)  # bytes sent of each of the next replies
    endless: bool = False  # sends no Content-Length
    silent: threading.Event = field(default_factory=threading.Event)  # cleared: stop after half of a body
    headers: dict[str, str] = field(default_factory=dict)
    requests: int = 0
    encodings: list[str | None] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)  # of the next replies, sent without a file
    address: str = ""

    def __post_init__(self) -> None:
        self.silent.set()

    def url(self, name: str) -> str:
        return f"{self.address}/{name}"

    def __enter__(self) -> "Publisher":
        publisher = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                publisher.answer(self)

            def log_message(self, *_):
                pass

            do_HEAD = do_GET  # noqa: N815

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        self.requests += 1
        self.encodings.append(handler.headers.get("Accept-Encoding"))
        name = urlsplit(handler.path).path.rpartition("/")[2]
        status = self.statuses.pop(0) if self.statuses else 200 if name in self.files else 404
        content, headers = b"", self.headers
        if status == 200:
            content = self.files[name]
            digest = hashlib.sha256(content).hexdigest()
            headers = {"Content-Type": "application/octet-stream", "ETag": f'"{digest}"', **headers}
        handler.send_response(status)
        for header, value in headers.items():
            handler.send_header(header, value)
        if not self.endless:
            handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        if handler.command == "HEAD":
            return
        end = self.breaks_after.pop(0) if self.breaks_after else len(content)
        handler.wfile.write(content[: end // 2])
        self.silent.wait()
        handler.wfile.write(content[end // 2 : end])
