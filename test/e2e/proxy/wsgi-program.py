"""Says what a WSGI program sees of a request: an HTTP/1.0 server, where a header's name is one of a CGI variable."""
import json
from wsgiref.simple_server import make_server


def application(environ, start_response):
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    seen = {name: value for name, value in environ.items() if isinstance(value, str) and name.isupper()}
    start_response("200 OK", [("Content-Type", "application/json")])
    # Without a length, so that the connection's end is the body's.
    yield json.dumps({"environ": seen, "body": body.decode("latin-1")}).encode()


make_server("", 8080, application).serve_forever()
