// Checks the responses that LinkCheck fetched from a host, and compares them with the settings. The functions are pure.
// The rules come from Apple's page "Supporting associated domains" and Google's "Verify Android App Links".

import API
import Foundation
import Outbound

/// One line of the output.
struct LinkFinding: Hashable, Sendable, CustomStringConvertible {
    enum Judgement: String, Sendable {
        case ok, warning
        case failure = "FAILED"
    }

    var judgement: Judgement
    var path: String
    var text: String

    init(_ judgement: Judgement, _ path: String, _ text: String) {
        (self.judgement, self.path, self.text) = (judgement, path, text)
    }

    var description: String { "\(judgement.rawValue) \(path): \(text)" }
}

struct LinkJudge: Sendable {
    enum Fetched: Sendable {
        case response(status: Int, contentType: String?, body: [UInt8])
        case failed(OutgoingFailure)
    }

    let apps: AppLinks
    let pages: [PublicPageName: PublicPage]

    /// The paths of the two documents and of the configured pages. A page that is not configured is not fetched,
    /// because it may be on another host.
    var fetchedPaths: [String] {
        [AppLinks.applePath, AppLinks.androidPath]
            + PublicPageName.allCases.filter { pages[$0] != nil }.map(\.path)
    }

    func bytesMax(_ path: String) -> Int {
        PublicPageName.allCases.contains { $0.path == path } ? PublicPage.bytesMax : AppLinks.documentBytesMax
    }

    /// Returns the findings about one path; at least one.
    func findings(_ path: String, _ fetched: Fetched) -> [LinkFinding] {
        switch path {
        case AppLinks.applePath where apps.appIDs.isEmpty: return unset(path, fetched, "LINK_APPS")
        case AppLinks.androidPath where apps.androidApps.isEmpty: return unset(path, fetched, "ANDROID_APPS")
        default: break
        }
        let content: (mediaType: String, body: [UInt8])
        switch Self.content(of: fetched, bytesMax: bytesMax(path)) {
        case .success(let found): content = found
        case .failure(let failure): return [LinkFinding(.failure, path, failure.text)]
        }
        if let name = PublicPageName.allCases.first(where: { $0.path == path }) {
            return [page(name, mediaType: content.mediaType, body: content.body)]
        }
        guard content.mediaType == "application/json" else {
            return [
                LinkFinding(
                    .failure, path,
                    "the content type is \(Self.shown(content.mediaType)); it must be application/json")
            ]
        }
        let found = path == AppLinks.applePath ? apple(content.body) : android(content.body)
        let isGood = !found.contains { $0.judgement == .failure }
        return found + (isGood ? [LinkFinding(.ok, path, "\(content.body.count) bytes, as the settings say")] : [])
    }

    // MARK: What holds for every document

    private struct Failure: Error {
        var text: String
    }

    private static func content(
        of fetched: Fetched, bytesMax: Int
    ) -> Result<(mediaType: String, body: [UInt8]), Failure> {
        switch fetched {
        case .failed(let failure): return .failure(Failure(text: text(of: failure, bytesMax: bytesMax)))
        case .response(let status, _, _) where status != 200:
            return .failure(Failure(text: "status \(status); it must be 200"))
        case .response(_, let contentType, let body):
            let mediaType = (contentType ?? "").prefix { $0 != ";" }
            return .success((mediaType.trimmingCharacters(in: .whitespaces).lowercased(), body))
        }
    }

    private static func text(of failure: OutgoingFailure, bytesMax: Int) -> String {
        switch failure {
        case .redirected: "a redirect; neither Apple nor Google follows one for these documents"
        case .notTrusted: "the certificate is not trusted for this host"
        case .timedOut: "no response within \(LinkCheck.timeoutMilliseconds / 1000) s"
        case .answerTooLong: "more than \(bytesMax) bytes"
        case .unreachable, .notHTTP2, .busy, .cancelled: "no connection with TLS"
        }
    }

    private static func shown(_ mediaType: String) -> String {
        mediaType.isEmpty ? "missing" : escaped(mediaType)
    }

    /// Returns the findings for a document whose variable is not set. Dwell does not serve such a document. If the host
    /// has one, it comes from another server, for example Firebase Hosting.
    private func unset(_ path: String, _ fetched: Fetched, _ variable: String) -> [LinkFinding] {
        switch fetched {
        case .response(status: 200, _, _):
            [
                LinkFinding(
                    .failure, path,
                    "the host has this document although \(variable) is not set; does a hosting service add its own?")
            ]
        case .response(let status, _, _): [LinkFinding(.ok, path, "status \(status), and \(variable) is not set")]
        case .failed(.redirected): [LinkFinding(.ok, path, "a redirect, and \(variable) is not set")]
        case .failed(let failure):
            [LinkFinding(.failure, path, Self.text(of: failure, bytesMax: bytesMax(path)))]
        }
    }

    // MARK: Apple

    private struct Association: Decodable {
        struct Links: Decodable {
            var details: [Detail]
        }
        struct Detail: Decodable {
            var appIDs: [String]?
            var appID: String?
            var components: [[String: Value]]?
            var paths: [String]?

            var all: [String] { (appIDs ?? []) + (appID.map { [$0] } ?? []) }
        }

        var applinks: Links
    }

    /// A value in `components` of Apple's document. Dwell writes only texts and Booleans, so `other` never occurs in a
    /// document from Dwell.
    private enum Value: Decodable, Hashable {
        case text(String)
        case flag(Bool)
        case other

        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            if let flag = try? container.decode(Bool.self) {
                self = .flag(flag)
            } else if let text = try? container.decode(String.self) {
                self = .text(text)
            } else {
                self = .other
            }
        }
    }

    private func apple(_ body: [UInt8]) -> [LinkFinding] {
        let failure = { (text: String) in LinkFinding(.failure, AppLinks.applePath, text) }
        guard let document = try? JSONDecoder().decode(Association.self, from: Data(body)) else {
            return [failure("not JSON with applinks.details, a list of objects")]
        }
        let details = document.applinks.details
        var findings: [LinkFinding] = []
        if details.contains(where: { $0.paths != nil && $0.appIDs != nil }) {
            findings.append(failure("appIDs with paths; appIDs goes with components"))
        }
        let expected = apps.paths.map { path -> [String: Value] in
            path.isExcluded ? ["/": .text(path.pattern), "exclude": .flag(true)] : ["/": .text(path.pattern)]
        }
        for appID in apps.appIDs {
            guard let detail = details.first(where: { $0.all.contains(appID) }) else {
                findings.append(failure("\(appID) of LINK_APPS is missing"))
                continue
            }
            let components = (detail.components ?? []).map { component in
                component.filter { $0.key != "comment" && !($0.key == "exclude" && $0.value == .flag(false)) }
            }
            if components != expected { findings.append(failure("\(appID) has other paths than LINK_PATHS")) }
        }
        for appID in Self.sortedSet(details.flatMap(\.all)) where !apps.appIDs.contains(appID) {
            findings.append(failure("\(escaped(appID)) is not in LINK_APPS"))
        }
        return findings
    }

    // MARK: Google

    private struct Statement: Decodable {
        struct Target: Decodable {
            var namespace: String
            var packageName: String?
            var fingerprints: [String]?

            enum CodingKeys: String, CodingKey {
                case namespace
                case packageName = "package_name"
                case fingerprints = "sha256_cert_fingerprints"
            }
        }

        var relation: [String]
        var target: Target
    }

    private func android(_ body: [UInt8]) -> [LinkFinding] {
        let failure = { (text: String) in LinkFinding(.failure, AppLinks.androidPath, text) }
        guard let statements = try? JSONDecoder().decode([Statement].self, from: Data(body)) else {
            return [failure("not JSON with a list of statements, each with relation and target")]
        }
        let links = statements.filter {
            $0.relation.contains(AppLinks.androidRelation) && $0.target.namespace == "android_app"
        }
        var findings: [LinkFinding] = []
        for app in apps.androidApps {
            let own = links.filter { $0.target.packageName == app.packageName }
            guard !own.isEmpty else {
                findings.append(failure("\(app.packageName) of ANDROID_APPS is missing"))
                continue
            }
            let found = Set(own.flatMap { $0.target.fingerprints ?? [] }.map { $0.uppercased() })
            for fingerprint in app.fingerprints where !found.contains(fingerprint) {
                findings.append(failure("\(app.packageName) lacks the fingerprint \(fingerprint)"))
            }
            for fingerprint in found.sorted() where !app.fingerprints.contains(fingerprint) {
                findings.append(
                    failure("\(app.packageName) has \(escaped(fingerprint)), which is not in ANDROID_APPS"))
            }
            if app.fingerprints.count == 1 {
                findings.append(
                    LinkFinding(
                        .warning, AppLinks.androidPath,
                        "\(app.packageName) has one fingerprint; with Play App Signing list Play's key and the upload "
                            + "key"))
            }
        }
        let names = apps.androidApps.map(\.packageName)
        for name in Self.sortedSet(links.compactMap(\.target.packageName)) where !names.contains(name) {
            findings.append(failure("\(escaped(name)) is not in ANDROID_APPS"))
        }
        return findings
    }

    // MARK: Pages

    private func page(_ name: PublicPageName, mediaType: String, body: [UInt8]) -> LinkFinding {
        guard let page = pages[name] else { return LinkFinding(.ok, name.path, "\(body.count) bytes") }
        let expected = page.mediaType.prefix { $0 != ";" }
        if mediaType != expected {
            return LinkFinding(
                .failure, name.path, "the content type is \(Self.shown(mediaType)); \(expected) is configured")
        }
        if body != page.bytes {
            return LinkFinding(
                .failure, name.path, "not the content of the configured file; after a change, reload the server")
        }
        return LinkFinding(.ok, name.path, "\(body.count) bytes, the configured file")
    }

    private static func sortedSet(_ texts: [String]) -> [String] {
        Set(texts).sorted()
    }
}
