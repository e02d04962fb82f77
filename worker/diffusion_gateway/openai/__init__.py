"""OpenAI's HTTP API as data: requests that we can honour, responses, errors. No routing and no I/O."""
