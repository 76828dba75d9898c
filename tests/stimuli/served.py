"""A publisher's server on 127.0.0.1 that behaves as badly as it is told to."""

import hashlib
import threading
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


@dataclass
class Publisher:
    """What is served, and how; what was asked is noted."""

    files: dict[str, bytes] = field(default_factory=dict)
    breaks_after: list[int] = field(default_factory=list)  # bytes of the next replies, one by one
    ranges: bool = True
    tagged: bool = True
    weak: bool = False  # tags that do not promise the same bytes
    shift: int = 0  # bytes by which a continuation starts too early
    portion: int | None = None  # bytes of a continuation at most
    endless: bool = False  # the length is not said
    headers: dict[str, str] = field(default_factory=dict)
    kind: str = "application/octet-stream"
    asked: list[str | None] = field(default_factory=list)  # Range of each request
    encodings: list[str | None] = field(default_factory=list)
    sent: int = 0  # bytes of bodies
    redirect: str | None = None
    statuses: list[int] = field(default_factory=list)  # of the next replies, instead of a file
    address: str = ""

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
        asked = reply.headers.get("Range")
        self.asked.append(asked)
        self.encodings.append(reply.headers.get("Accept-Encoding"))
        name = urlsplit(reply.path).path.lstrip("/")
        if self.statuses or name not in self.files:
            reply.send_error(self.statuses.pop(0) if self.statuses else 404)
            return
        if self.redirect:
            reply.send_response(302)
            reply.send_header("Location", self.redirect)
            reply.end_headers()
            return
        content = self.files[name]
        tag = f'{"W/" * self.weak}"{hashlib.sha256(content).hexdigest()[:8]}"'
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and self.ranges else 0
        if self.tagged and reply.headers.get("If-Range", tag) != tag:
            start = 0
        end = len(content)
        reply.send_response(206 if start else 200)
        if start:
            start -= self.shift
            end = min(end, start + self.portion) if self.portion else end
            reply.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(content)}")
        if self.tagged:
            reply.send_header("ETag", tag)
        reply.send_header("Content-Type", self.kind)
        reply.send_header("Date", formatdate(usegmt=True))
        for name, value in self.headers.items():
            reply.send_header(name, value)
        if not self.endless:
            reply.send_header("Content-Length", str(end - start))
        body = content[start:end]
        body = body[: self.breaks_after.pop(0)] if self.breaks_after else body
        # Counted before a byte goes out: who has an answer, or gave up on one, finds it counted.
        self.sent += len(body)
        reply.end_headers()
        reply.wfile.write(body)
