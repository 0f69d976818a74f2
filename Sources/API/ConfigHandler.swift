// GET /native/config: the eight settings and the flags, with a strong ETag. A phone sends the ETag of its copy. If the
// copy is current, the response is 304 without content (RFC 9110 sections 8.8.3 and 13.1.2).

import Engine
import Foundation
import HTTP1
import HTTPServer
import Identity
import JourneyModel
import Synchronization

struct ConfigHandler: Sendable {
    /// The longest time that a phone may use its copy, in seconds.
    private static let freshSecondsMax: Int64 = 86_400

    let settings: CurrentSettings

    /// The two responses for one version of the document: the whole document, and 304.
    private struct Prepared {
        var version: String
        var etag: String
        var whole: Response
        var notModified: Response

        init(version: String, tag: String, json: [UInt8], freshSeconds: Int64, vary: [String] = []) {
            self.version = version
            etag = "\"" + tag + "\""
            var fields = Fields([("ETag", etag), ("Cache-Control", "private, max-age=\(freshSeconds)")])
            if !vary.isEmpty { fields.append("Vary", vary.joined(separator: ", ")) }
            notModified = Response(status: .notModified, fields: fields)
            fields.append("Content-Type", "application/json")
            whole = Response(status: .ok, fields: fields, body: .bytes(json))
        }

        func response(to request: Request) -> Response {
            EntityTag.response(to: request, etag, whole: whole, notModified: notModified)
        }
    }

    /// The responses if the server has no settings rules. They are built once per version, not for each request.
    private final class Memory: Sendable {
        let prepared: Mutex<Prepared>

        init(_ prepared: Prepared) {
            self.prepared = Mutex(prepared)
        }
    }

    var get: @Sendable (Request, Caller) -> Response {
        let (version, json, _) = settings.readWireJSON()
        let memory = Memory(
            Prepared(version: version, tag: version, json: json, freshSeconds: Self.freshSecondsMax))
        return { request, caller in
            let (version, json, rules) = settings.readWireJSON()
            let charger: String?
            do throws(ProblemResponse) {
                charger = try Self.charger(request.query)
            } catch {
                return error.response(requestID: request.id)
            }
            if let rules { return Self.prepared(rules, request, caller.driver, charger: charger).response(to: request) }
            return memory.prepared.withLock { prepared in
                // The version is computed from the eight settings. Equal versions therefore mean equal settings.
                if prepared.version != version {
                    prepared = Prepared(
                        version: version, tag: version, json: json, freshSeconds: Self.freshSecondsMax)
                }
                return prepared.response(to: request)
            }
        }
    }

    /// Builds the responses for this driver and charger. They are not cached, because evaluating the rules takes
    /// microseconds, and a cache would grow with the number of drivers and chargers.
    private static func prepared(
        _ rules: SettingsRules, _ request: Request, _ driver: DriverID, charger: String?
    ) -> Prepared {
        let subject = SettingsSubject(
            driver: driver, appVersion: rules.dependsOnAppVersion ? request.appVersion : nil, at: request.receivedAt)
        let document = rules.document(for: subject, charger: charger)
        // A phone may use its copy until a rule begins or ends. This time is rounded up to a second and limited to
        // `freshSecondsMax`.
        let untilChange = document.nextChange.map { ($0.milliseconds(since: subject.at) + 999) / 1000 }
        // Two drivers may use the same phone, one after the other. Without `Vary: Authorization`, the phone could show
        // the second driver the copy of the first.
        let vary =
            (rules.dependsOnDriver ? ["Authorization"] : []) + (rules.dependsOnAppVersion ? ["X-App-Version"] : [])
        return Prepared(
            version: document.tag, tag: document.tag, json: document.json,
            freshSeconds: min(untilChange ?? freshSecondsMax, freshSecondsMax), vary: vary)
    }

    /// Returns the value of the query parameter `charger_id`. All other parameters are ignored.
    private static func charger(_ query: String?) throws(ProblemResponse) -> String? {
        let values = PageQuery.values(of: "charger_id", in: query)
        guard let value = values.first else { return nil }
        guard values.count == 1, let charger = value.removingPercentEncoding,
            (1...128).contains(charger.unicodeScalars.count)
        else {
            let error = FieldError(
                pointer: "/charger_id", detail: "must be one percent-encoded text of 1 to 128 characters")
            throw ProblemResponse(.invalid(InvalidFields([error])))
        }
        return charger
    }
}
