// GET /healthz: shows that the process is alive and responds. It checks no dependencies; /readyz checks them.

import HTTP1
import HTTPServer

enum HealthHandler {
    static let alive = Response(
        status: .ok, fields: Fields([("Content-Type", "application/json"), ("Cache-Control", "no-store")]),
        body: .bytes(Array(#"{"status":"ok"}"#.utf8)))
}
