// Compares our `Fields` with `HTTPFields` from swift-http-types (docs/decisions/own-header-fields.md). Run with `make
// bench-fields`.
//
// The benchmark fills both types with the header fields of one request that posts an event. It then looks up the fields
// that the server reads for every event.

import HTTP1
import HTTPTypes

@main
struct HeaderFields {
    static let received: [(String, String)] = [
        ("Host", "dwell.example"), ("User-Agent", "Dwell/42 CFNetwork/1494.0.7 Darwin/23.4.0"), ("Accept", "*/*"),
        ("Accept-Encoding", "gzip, deflate, br"), ("Content-Type", "application/json"), ("Content-Length", "412"),
        ("Authorization", "Bearer " + String(repeating: "x", count: 300)),
        ("Idempotency-Key", "C24EBCF8-9B6A-47D5-98BA-6156FAC4D77A"),
    ]
    static let iterations = 200_000

    static func main() {
        let clock = ContinuousClock()
        var found = 0
        for round in 1...3 {
            let own = clock.measure { for _ in 0..<iterations { found &+= ownFields() } }
            let library = clock.measure { for _ in 0..<iterations { found &+= libraryFields() } }
            print("round \(round): Fields \(perRequest(own)) ns, HTTPFields \(perRequest(library)) ns a request")
        }
        precondition(found == 2 * 3 * 5 * iterations, "a field was not found")
    }

    @inline(never) static func ownFields() -> Int {
        var fields = Fields()
        for (name, value) in received { fields.append(name, value) }
        var found = 0
        for name in ["Host", "Content-Type", "Content-Length", "Authorization", "Idempotency-Key", "Expect"]
        where fields.first(name) != nil {
            found += 1
        }
        return found
    }

    static let wanted: [HTTPField.Name] = [
        HTTPField.Name("Host")!, .contentType, .contentLength, .authorization, HTTPField.Name("Idempotency-Key")!,
        .expect,
    ]

    @inline(never) static func libraryFields() -> Int {
        var fields = HTTPFields()
        for (name, value) in received {
            guard let name = HTTPField.Name(name) else { continue }
            fields.append(HTTPField(name: name, value: value))
        }
        var found = 0
        for name in wanted where fields[name] != nil { found += 1 }
        return found
    }

    static func perRequest(_ duration: Duration) -> Int {
        Int(duration / .nanoseconds(iterations))
    }
}
