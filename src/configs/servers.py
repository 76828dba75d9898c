"""Define the fields of every model behind a server with OpenAI's API."""

from dataclasses import dataclass
from typing import ClassVar

from omegaconf import MISSING

from src.configs.fields import bounded_number


@dataclass
class ApiConfig:
    """Fields of every model behind a server with OpenAI's API: vLLM, infinity, llama.cpp, Ollama and others.

    Attributes:
        retries: retries of a failed request, with waits of 0.5, 1, 2, … s or as the server requests, at most
            a minute each.
    """

    group: ClassVar[str]  # config group of the model, for messages

    url: str = MISSING  # address up to `/v1`
    id: str = MISSING  # name of the model on the server
    key: str = "OPENAI_API_KEY"  # name of the environment variable with the key; empty: no key is sent
    concurrency: int = bounded_number(1, 256, default=8)  # maximum number of concurrent requests
    retries: int = bounded_number(0, default=5)
    timeout: float = bounded_number(0.01, default=120.0)  # seconds to wait for an answer
