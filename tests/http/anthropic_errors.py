"""The shape of an error of the Messages API."""


def check(body, headers):
    """The error's type, once its shape is right."""
    assert body["type"] == "error" and body["error"]["message"] and set(body["error"]) == {"type", "message"}
    assert body["request_id"] == headers["Request-Id"]
    return body["error"]["type"]
