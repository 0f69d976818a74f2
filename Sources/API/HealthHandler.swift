// GET /healthz: the process is alive and answers. It asks nobody else; that is /readyz's business.

import HTTP1
import HTTPServer

enum HealthHandler {
    static let alive = Response(
        status: .ok, fields: Fields([("Content-Type", "application/json"), ("Cache-Control", "no-store")]),
        body: .bytes(Array(#"{"status":"ok"}"#.utf8)))
}
