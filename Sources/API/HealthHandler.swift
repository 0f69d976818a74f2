// GET /healthz: shows that the process responds. Only /readyz checks dependencies.

import HTTP1
import HTTPServer

enum HealthHandler {
    static let alive = Response(
        status: .ok, fields: Fields([("Content-Type", "application/json"), ("Cache-Control", "no-store")]),
        body: .bytes(Array(#"{"status":"ok"}"#.utf8)))
}
