"""A server on this machine that Dwell calls, which can stop and restart on the same port."""

import http.server
import threading


class QuietServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """A client that hangs up, or that does not believe the certificate."""


class LoopbackServer:
    """For use with `with`. Answers through the handler class given, which finds whom it answers for in `owner`."""

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
        """On the port of the time before, if there was one."""
        self.server = QuietServer(("127.0.0.1", self.port), self.handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self):
        """Goes away: connections are refused."""
        if self.server:
            self.server.shutdown()
            self.server.server_close()
            self.server = None
