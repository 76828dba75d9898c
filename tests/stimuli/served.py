"""A publisher's server on 127.0.0.1 that behaves as badly as it is told to."""

import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


@dataclass
class Publisher:
    """What is served, and how; what was asked is noted."""

    files: dict[str, bytes] = field(default_factory=dict)
    breaks_after: list[int] = field(default_factory=list)  # bytes of the next replies, one by one
    endless: bool = False  # the length is not said
    silent: threading.Event = field(default_factory=threading.Event)  # cleared: half of a body, and no more
    headers: dict[str, str] = field(default_factory=dict)
    kind: str = "application/octet-stream"
    asked: int = 0  # requests
    encodings: list[str | None] = field(default_factory=list)
    redirect: str | None = None
    redirections: int | None = None  # of the next requests; None: of all
    statuses: list[int] = field(default_factory=list)  # of the next replies, instead of a file
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

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def answer(self, reply: BaseHTTPRequestHandler) -> None:
        self.asked += 1
        self.encodings.append(reply.headers.get("Accept-Encoding"))
        name = urlsplit(reply.path).path.lstrip("/")
        if self.statuses or name not in self.files:
            reply.send_error(self.statuses.pop(0) if self.statuses else 404)
            return
        if self.redirect and self.redirections != 0:
            self.redirections = self.redirections and self.redirections - 1
            reply.send_response(302)
            reply.send_header("Location", self.redirect)
            reply.end_headers()
            return
        content = self.files[name]
        reply.send_response(200)
        reply.send_header("Content-Type", self.kind)
        for header, value in self.headers.items():
            reply.send_header(header, value)
        if not self.endless:
            reply.send_header("Content-Length", str(len(content)))
        reply.end_headers()
        end = self.breaks_after.pop(0) if self.breaks_after else len(content)
        reply.wfile.write(content[: end // 2])
        self.silent.wait()
        reply.wfile.write(content[end // 2 : end])
