"""Fetch published datasets: download their files with pooch, verify sizes and hashes, and unpack them.

A file gets its final name only when it is complete and verified.
"""

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import pooch
import requests

from src.errors import InputError, brief, redact
from src.stimuli.csvs import check_filled, check_unique, read_csv
from src.stimuli.pictures import decode
from src.stimuli.public_datasets import (
    PICTURE_SUFFIXES,
    PRESENT,
    AddressTable,
    Dataset,
    RemoteFile,
    format_command,
    read_status,
)
from src.stimuli.unpack import unpack
from src.stimuli.work_folders import lock_folder, make_draft_folder
from src.storage.cache import file_hash

RETRIES = 4  # maximum number of attempts after the first
TIMEOUT = (10, 60)  # seconds to connect, and between two chunks of the body
CHUNK = 1 << 16  # bytes
FILE_NAME = re.compile(r"\w[\w-]{0,99}", re.ASCII)  # name of a file that a table of addresses gives
# Smallest and largest allowed number of bytes of a file.
SizeLimits = tuple[int, int]
# Function to call with the bytes received so far, `completed`, and the size, `total` (None if unknown).
Progress = Callable[..., None]


@dataclass(frozen=True)
class _FetchRecord:
    """Address, size and hash of a file when it was first fetched."""

    url: str
    bytes: int
    sha256: str


def fetch_dataset(dataset: Dataset, root: Path, report: Callable[[str], None], progress: Progress) -> None:
    """Fetch the files of a dataset into its folder in `root` unless it is complete; `report` prints lines.

    Of a complete dataset, archives that lie there are unpacked if what is taken from them is not all there.
    """
    folder, files = dataset.folder(root), dataset.files
    if read_status(dataset, root).state == PRESENT:
        files = tuple(file for file in files if _is_partly_unpacked(file, folder))
        if not files:
            report(f"{dataset.name}: already complete in {folder}.")
            return
    if not dataset.files:
        access = "Its publisher requires a form" if dataset.form else "It must be fetched by hand"
        raise InputError(
            f"{dataset.name}: {access}. Open {dataset.address}, and put it into {folder}: "
            f"{dataset.layout} Then {format_command('status', dataset, root)} counts it. "
            f"Terms: {dataset.terms}"
        )
    report(f"{dataset.title} ({dataset.citation}). Terms: {dataset.terms} By using it you accept them.")
    with lock_folder(folder, "Choose another --root."):
        for file in files:
            report(_fetch_file(file, folder, progress))
            for name in unpack(folder / file.name, file.take, file.at_most) if file.take else []:
                report(f"{folder / name} is unchanged. To replace it, move it, and fetch again.")
        for table in dataset.addresses:
            report(_fetch_addresses(table, folder, progress))


def _is_partly_unpacked(file: RemoteFile, folder: Path) -> bool:
    """Return whether an archive lies in a folder that lacks some of what is taken from it."""
    return (folder / file.name).is_file() and not all((folder / name).exists() for name in file.take.values())


def _fetch_addresses(table: AddressTable, folder: Path, progress: Progress) -> str:
    """Fetch the pictures whose addresses a tsv lists, unless they are present; return a line to report.

    Addresses that fail, or whose file is not a picture, are counted: many of them lead nowhere any more.
    """
    path, target_folder = folder / table.table, folder / table.folder
    rows = read_csv(path, [table.name, table.address], "Fetch it again.", separator="\t")
    for column in (table.name, table.address):
        check_filled(rows, column, path)
    check_unique(rows, table.name, path)
    if unsafe := next((name for name in rows[table.name] if not FILE_NAME.fullmatch(name)), ""):
        raise InputError(
            f"{path}: {brief(unsafe)!r} cannot be the name of a file. Correct or delete its row."
        )
    target_folder.mkdir(exist_ok=True)
    names = {file.stem for file in target_folder.iterdir()}
    failures = []
    for name, address in zip(rows[table.name], rows[table.address], strict=True):
        if name in names:
            continue
        suffix = Path(urlsplit(address).path).suffix.lower()
        target = target_folder / f"{name}{suffix if suffix in PICTURE_SUFFIXES else ''}"
        try:
            download(address, target, (1, table.at_most), None, progress, retries=1)
            decode(target)
        except Exception as error:  # Pillow's decoders raise exceptions of any type
            target.unlink(missing_ok=True)
            failures.append(f"{name} ({brief(str(error))})")
    fetched = f"{len(rows) - len(failures)} of {len(rows)} pictures of {path} are in {target_folder}"
    if not failures:
        return f"{fetched}."
    return (
        f"{fetched}; {len(failures)} addresses failed, such as {failures[0]}. Fetch them by hand, or do "
        "without: rows without a picture are left out and counted."
    )


def _fetch_file(file: RemoteFile, folder: Path, progress: Progress) -> str:
    """Fetch a file unless it is present, check its hash, and return a line to report."""
    target, record_path = folder / file.name, folder / f"{file.name}.json"
    record = _read_record(record_path, file.url)
    expected: RemoteFile | _FetchRecord
    source, expected = ("published", file) if file.sha256 else ("recorded at first", record or file)
    size_limits = (0, file.at_most) if expected.bytes is None else (expected.bytes, expected.bytes)
    is_present = target.exists()
    if not is_present:
        download(file.url, target, size_limits, expected.sha256, progress)
    digest = file_hash(target)
    if expected.sha256 not in (None, digest):
        raise InputError(
            f"{target}: expected sha256 {expected.sha256} ({source}), got {digest}. Move it; fetch again."
        )
    size = target.stat().st_size
    if not record:
        draft = record_path.with_name(f".{record_path.name}.draft")
        draft.write_text(json.dumps(asdict(_FetchRecord(file.url, size, digest)), indent=2) + "\n")
        draft.rename(record_path)
    message = f"{target} {'was there' if is_present else 'is fetched'}: {size} bytes, sha256 {digest}"
    if expected.sha256 is None:
        return f"{message}: no hash is published, so this one is trusted, and recorded in {record_path.name}."
    return f"{message}, as {source}."


def _read_record(path: Path, url: str) -> _FetchRecord | None:
    """Read the record of a file; return None if it does not exist or is about another address."""
    try:
        if path.exists() and not path.is_file():  # reading a pipe would block
            raise OSError("not a file")
        record = _FetchRecord(**json.loads(path.read_text()))
        if [type(value) for value in asdict(record).values()] != [str, int, str]:
            raise TypeError("url, bytes and sha256 must be text, a whole number and text")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise InputError(f"{path}: not a record of a file ({brief(str(error))}). Delete it.") from None
    return record if record.url == url else None


def download(
    url: str,
    target: Path,
    size_limits: SizeLimits,
    sha256: str | None,
    progress: Progress,
    *,
    retries: int = RETRIES,
) -> None:
    """Download a file into an existing folder; it gets its name only when it is complete and verified.

    Raises:
        InputError: the server has no such file, sends other bytes than expected or fails repeatedly, or the
            disk is full.
    """
    check_address(url, url)
    address, attempts = redact(url), 0

    def transfer(_: str, output_file: str, __: Any) -> None:
        nonlocal attempts
        attempts += 1
        _receive(url, Path(output_file), size_limits, progress)

    pooch.get_logger().setLevel("WARNING")  # its log would show passwords in addresses
    try:
        with make_draft_folder(target) as draft:
            hashes, urls = {target.name: sha256}, {target.name: url}
            fetcher = pooch.create(draft, base_url="", registry=hashes, urls=urls, retry_if_failed=retries)
            Path(fetcher.fetch(target.name, downloader=transfer)).rename(target)
    except requests.RequestException as error:
        cause: BaseException = error  # the innermost nested error is the informative one
        while inner := cause.__cause__ or cause.__context__:
            cause = inner
        raise InputError(
            f"{address}: cannot be fetched ({redact(str(cause) or type(cause).__name__)}; {attempts} "
            "attempts). Try again later, or fetch it by hand: see the dataset's page."
        ) from None
    except OSError as error:
        raise InputError(
            f"{target}: cannot be written ({error.strerror}). Free disk space, or make it writable, and run "
            "the same command again."
        ) from None
    except ValueError as error:  # from pooch, which names both hashes
        raise InputError(
            f"{address}: {error} If this persists, the publisher has changed the file: see its page."
        ) from None


def _receive(url: str, output: Path, size_limits: SizeLimits, progress: Progress) -> None:
    """Download a file in a single attempt.

    Raises `InputError` for wrong sizes and for responses that another attempt would not change, and
    exceptions of requests, after which pooch tries again.
    """

    def check_redirect(response: requests.Response, **_: Any) -> None:
        if response.is_redirect:
            check_address(url, urljoin(response.url, response.headers["Location"]))

    def check_size(size: int, verb: str) -> None:
        low, high = size_limits
        if size < low or size > high:
            expected = low if low == high else f"{low} to {high}"
            raise InputError(
                f"{redact(url)}: expected {expected} bytes, {verb} {size}. If this persists, the publisher "
                "has changed the file: see its page."
            )

    output.unlink()  # pooch made it readable by its owner only; a new file has the usual permissions
    headers, hooks = {"Accept-Encoding": "identity"}, {"response": check_redirect}
    options: Any = {"stream": True, "timeout": TIMEOUT, "headers": headers, "hooks": hooks}
    with requests.get(url, **options) as response, output.open("wb") as file:
        if response.status_code >= 500 or response.status_code == 429:
            response.raise_for_status()  # pooch retries
        if problem := _find_problem(response):
            raise InputError(f"{redact(url)}: the server {problem}")
        length, received = response.headers.get("Content-Length", ""), 0
        total = int(length) if length.isdigit() else None
        if total is not None:
            check_size(total, "announced")
        for chunk in response.iter_content(CHUNK):
            received += len(chunk)
            check_size(max(received, size_limits[0]), "received")  # too few bytes are refused at the end
            file.write(chunk)
            progress(completed=received, total=total)
    check_size(received, "received")


def check_address(url: str, location: str) -> None:
    """Refuse an address or redirection that is not http or that leaves https."""
    scheme = urlsplit(location).scheme
    if scheme not in ("http", "https") or (scheme == "http" and url.startswith("https:")):
        raise InputError(
            f"{redact(url)}: leads to {redact(location)}. Only http and https are followed, never from "
            "https to http."
        )


def _find_problem(response: requests.Response) -> str:
    """Describe why a response is not a file, and the remedy; return an empty text if it is a file."""
    if response.status_code != 200:
        return (
            f"answers {response.status_code} {response.reason}. The file may have moved: see the dataset's "
            "page, and fetch it by hand."
        )
    if response.headers.get("Content-Encoding", "identity") != "identity":
        return "sends it compressed, which was not requested. Fetch it by hand."
    if response.headers.get("Content-Type", "").startswith("text/html"):
        return (
            "sends a page, not the file: it may ask for a login or a form. Open the address in a browser, "
            "and fetch the file by hand."
        )
    return ""
