"""Query models behind servers with OpenAI's API: concurrently, with retries, without losing an answer."""
