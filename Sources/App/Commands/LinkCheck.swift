// `dwell check-config --links URL`: fetches the documents and pages of a host in the same way as Apple's and Google's
// servers. LinkJudge checks the responses.

import API
import Foundation
import Outbound

/// The host whose documents are checked.
struct LinkOrigin: Hashable, Sendable {
    let url: URL

    /// Parses an https URL that contains only a host and optionally a port. Returns nil for any other text.
    init?(_ text: String) {
        guard let parsed = OutgoingURL(text), parsed.isSecure, parsed.url.query() == nil,
            ["", "/"].contains(parsed.url.path())
        else { return nil }
        url = parsed.url
    }

    /// Whether the URL has a port other than 443. Apple and Google fetch from port 443 only.
    var hasOtherPort: Bool { url.port.map { $0 != 443 } ?? false }
}

struct LinkCheck: Sendable {
    let origin: LinkOrigin
    /// The path of a PEM file whose certificates are trusted in addition to the system's; nil if there is none.
    let authorityFile: String?
    let judge: LinkJudge

    /// The time limit of one request.
    static let timeoutMilliseconds = 10_000

    /// Returns the findings, one line each.
    func run(_ http: OutgoingHTTP) async -> [LinkFinding] {
        var findings: [LinkFinding] = []
        if origin.hasOtherPort {
            findings.append(
                LinkFinding(.warning, "/", "Apple and Google fetch from port 443 only, whatever port a link has"))
        }
        for path in judge.fetchedPaths {
            findings += judge.findings(path, await fetch(path, http))
        }
        return findings
    }

    private func fetch(_ path: String, _ http: OutgoingHTTP) async -> LinkJudge.Fetched {
        let request = OutgoingRequest(.get, origin.url.appending(path: path), authorityFile: authorityFile)
        do throws(OutgoingFailure) {
            let response = try await http.send(
                request, timeoutMilliseconds: Self.timeoutMilliseconds, answerBytesMax: judge.bytesMax(path))
            return .response(status: response.status, contentType: response.contentType, body: response.body)
        } catch {
            return .failed(error)
        }
    }
}
