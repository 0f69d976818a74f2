"""A proxy that changes one verdict: python3 liar.py PORT SERVER_PORT.

Used by simulate.bats. If a response contains `-force-quit-0`, the proxy changes its first transition `applied` to
`none`. All other responses pass unchanged."""

import http.client
import http.server
import sys

port, server_port = int(sys.argv[1]), int(sys.argv[2])


class Liar(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Buffers the response, so that one write sends the head and the body. With two writes, the client's delayed
    # acknowledgement would add 40 ms to each response.
    wbufsize = -1

    def forward(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        connection = http.client.HTTPConnection("127.0.0.1", server_port, timeout=10)
        connection.request(self.command, self.path, body, dict(self.headers))
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        if b"-force-quit-0" in content:
            content = content.replace(b'"transition":"applied"', b'"transition":"none"', 1)
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "connection", "date"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = forward

    def log_message(self, *arguments):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", port), Liar).serve_forever()
