import Foundation
import JourneyModel
import Testing

/// A scripted journey of Tests/Fixtures/journeys. The README in that directory explains the members.
struct JourneyFixture: CustomTestStringConvertible, Sendable {
    struct Event: Sendable {
        var driver: String
        var route: EventRoute
        var headers: EventHeaders
        var body: [UInt8]
        var expect: JSONValue
    }

    var name: String
    var now: Moment
    var gracePeriodSeconds: Int
    var hardTimeoutSeconds: Int
    var events: [Event]
    var final: [String: String]
    /// The expected reason for the end of each listed session.
    var sessions: [String: String]
    var serverEvents: [[String: String]]
    var deliveries: [[Int]]
    var isPermutable: Bool

    var testDescription: String { name }

    static let folder = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "Fixtures/journeys")

    static let all: [JourneyFixture] = {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? []
        return names.filter { $0.hasSuffix(".json") }.sorted().compactMap { try? JourneyFixture(file: $0) }
    }()

    struct Malformed: Error {}

    init(file: String) throws {
        let root = try JSONValue.parse(Array(Data(contentsOf: Self.folder.appending(path: file))))
        guard let name = root["name"]?.text, let now = root["now"]?.text.flatMap(RFC3339.moment(from:)) else {
            throw Malformed()
        }
        self.name = name
        self.now = now
        gracePeriodSeconds = root["settings"]?["gracePeriodSeconds"]?.integer ?? 900
        hardTimeoutSeconds = root["settings"]?["hardTimeoutSeconds"]?.integer ?? 3600
        events = try (root["events"]?.elements ?? []).map(Event.init)
        final = root["final"]?.texts ?? [:]
        sessions = root["sessions"]?.texts ?? [:]
        serverEvents = (root["server_events"]?.elements ?? []).map(\.texts)
        deliveries = (root["deliveries"]?.elements ?? []).map { ($0["order"]?.elements ?? []).compactMap(\.integer) }
        isPermutable = root["permutable"] != .bool(false)
    }
}

extension JourneyFixture.Event {
    init(_ value: JSONValue) throws {
        let routes: [String: EventRoute] = [
            "/native/events": .native, "/v1/native/session-events": .v1Session,
            "/v1/native/pre-session-events": .v1PreSession,
        ]
        guard let driver = value["driver"]?.text, let route = value["route"]?.text.flatMap({ routes[$0] }),
            let body = value["body"], let expect = value["expect"]
        else { throw JourneyFixture.Malformed() }
        self.driver = driver
        self.route = route
        headers = EventHeaders(sentAt: value["headers"]?["X-Sent-At"]?.text)
        self.body = Array(body.compact.utf8)
        self.expect = expect
    }
}

extension JSONValue {
    var text: String? {
        if case .string(let text) = self { text } else { nil }
    }

    var integer: Int? {
        if case .number(let text) = self { Int(text) } else { nil }
    }

    var elements: [JSONValue] {
        if case .array(let elements) = self { elements } else { [] }
    }

    var texts: [String: String] {
        guard case .object(let members) = self else { return [:] }
        return Dictionary(
            uniqueKeysWithValues: members.compactMap { member in member.value.text.map { (member.name, $0) } })
    }
}
