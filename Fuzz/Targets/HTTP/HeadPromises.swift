// Checks the promises of RequestHead without looking at the request's bytes.
//
// Determines the framing (where the content ends) from the field values, and compares it with `head.framing`. If two
// readers disagree about the framing, request smuggling is possible (RFC 9112 section 11.2).

import HTTP1

struct HeadPromises {
    private let head: RequestHead
    private let limits: Limits

    init(_ head: RequestHead, _ limits: Limits) {
        self.head = head
        self.limits = limits
    }

    func check() throws(Finding) {
        try checkRequestLine()
        try Self.checkPath(head.path)
        try checkFields()
        try checkFraming()
        try checkConnection()
    }

    /// Checks that the path is in the canonical form of RequestTarget.
    static func checkPath(_ path: String) throws(Finding) {
        if path == "*" { return }
        let bytes = Array(path.utf8)
        try require(bytes.first == UInt8(ascii: "/"), "A path that does not start with a slash.")
        let segments = bytes.dropFirst().split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        for (index, segment) in segments.enumerated() {
            let isLast = index == segments.count - 1
            try require(!segment.isEmpty || isLast, "An empty segment inside of a path.")
            try require(segment != [0x2E] && segment != [0x2E, 0x2E], "A dot segment in a path.")
        }
        let hasControls = bytes.contains { $0 < 0x20 || $0 == 0x7F || $0 == UInt8(ascii: "\\") }
        try require(!hasControls, "A control character or a backslash in a path.")
    }

    private func checkRequestLine() throws(Finding) {
        let method = head.method.rawValue.utf8
        try require(!method.isEmpty && method.allSatisfy(isTokenByte), "A method that is no token.")
        try require(method.count <= limits.methodBytesMax, "A method over the limit.")
        try require(head.method != .connect, "CONNECT was handed out.")
        try require(head.path != "*" || head.method == .options, "The target * without OPTIONS.")
        try require(head.minorVersion == 0 || head.minorVersion == 1, "A version that is neither 1.0 nor 1.1.")
        let query = head.query?.utf8 ?? "".utf8
        let isQuery = query.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "#") }
        try require(isQuery, "A byte in the query that has no place there.")
    }

    private func checkFields() throws(Finding) {
        try require(head.fields.count <= limits.fieldCountMax, "More fields than the limit.")
        var bytes = 2
        for field in head.fields.all {
            let value = field.value.utf8
            try require(!field.name.isEmpty && field.name.utf8.allSatisfy(isTokenByte), "A name that is no token.")
            try require(value.allSatisfy { $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 }, "A control in a field value.")
            let isTrimmed = [value.first, value.last].allSatisfy { $0 != 0x20 && $0 != 0x09 }
            try require(isTrimmed, "Whitespace around a field value.")
            bytes += field.name.utf8.count + 1 + 2
        }
        try require(bytes <= limits.fieldSectionBytesMax, "A field section over the limit.")
    }

    private func checkFraming() throws(Finding) {
        let lengths = values("content-length")
        let codings = values("transfer-encoding")
        switch head.framing {
        case .none:
            try require(lengths.isEmpty && codings.isEmpty, "Framing fields were passed over.")
        case .length(let length):
            try require(codings.isEmpty && lengths.count == 1, "Content-Length does not stand alone.")
            let digits = lengths[0].drop { $0 == "0" }
            try require(digits == (length == 0 ? "" : "\(length)") && !lengths[0].isEmpty, "Another Content-Length.")
        case .chunked:
            try require(lengths.isEmpty && codings.map { $0.lowercased() } == ["chunked"], "Not chunked alone.")
            try require(head.minorVersion == 1, "Chunked in HTTP/1.0.")
        }
    }

    private func checkConnection() throws(Finding) {
        let hosts = values("host")
        try require(hosts.count == 1 || hosts.isEmpty && head.minorVersion == 0, "Not one Host.")
        try require(!head.authority.isEmpty || hosts.isEmpty, "An empty authority.")
        let isHost = head.authority.utf8.allSatisfy {
            $0 > 0x20 && $0 < 0x7F && !Array("@/?#\\".utf8).contains($0)
        }
        try require(isHost, "A byte in the authority that has no place there.")
        // Split by code points. If split by Characters, a comma before a combining mark would not count as a comma.
        let options = values("connection").flatMap { $0.unicodeScalars.split(separator: ",") }.map(String.init).map {
            // Replace white space within an option by one space, instead of removing it. Otherwise "c lose" would
            // become "close".
            $0.lowercased().split { $0 == " " || $0 == "\t" }.joined(separator: " ")
        }
        let keepsAlive = !options.contains("close") && (head.minorVersion == 1 || options.contains("keep-alive"))
        try require(head.keepAlive == keepsAlive, "Connection was read otherwise.")
        let expects = head.minorVersion == 1 && values("expect").contains { $0.lowercased() == "100-continue" }
        try require(head.expectsContinue == expects, "Expect was read otherwise.")
    }

    private func values(_ name: String) -> [String] {
        head.fields.all.filter { $0.name.lowercased() == name }.map(\.value)
    }
}
