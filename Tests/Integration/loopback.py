"""A loopback server that Dwell calls. It can stop and restart on the same port."""

import http.server
import threading


class QuietServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """Ignores clients that hang up or do not trust the certificate."""


class LoopbackServer:
    """A context manager that runs a server with the given handler class. Handlers reach this object as their
    `owner`."""

    def __init__(self, handler, port=0):
        self.handler = type("Handler", (handler,), {"owner": self})
        self.server = None
        self.port = port

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        """Starts the server. After a stop, it gets the same port again."""
        self.server = QuietServer(("127.0.0.1", self.port), self.handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self):
        """Stops the server: connections are refused."""
        if self.server:
            self.server.shutdown()
            self.server.server_close()
            self.server = None
