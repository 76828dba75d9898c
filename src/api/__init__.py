"""Query models behind servers with OpenAI's API concurrently, with retries; yield answers as they arrive."""
