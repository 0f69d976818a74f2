// The client side of `GET /native/config`. The request is conditional: `If-None-Match` has the ETag of the phone's
// copy. After a 304, the phone continues to use its copy.

public import JourneyModel

/// The phone's copy of the settings.
public struct SettingsCopy: Hashable, Sendable {
    /// The value of a flag that the server's operator sets.
    public enum Flag: Hashable, Sendable {
        case bool(Bool)
        case text(String)
    }

    public var settings: Settings
    /// The flags by name. Empty if the server has none. Ignore unknown flags, and use a default for missing flags.
    public var flags: [String: Flag]
    /// The ETag as the server sent it, with its quotes; nil if the server sent none.
    public var etag: String?
    /// When the server last confirmed these settings.
    public var confirmedAt: Moment
    /// The server's `max-age` in seconds: how long the copy may be used without a new request.
    public var freshSeconds: Int

    /// The maximum of `freshSeconds`. A 200 without `max-age` sets `freshSeconds` to this value, and a 304 without
    /// `max-age` leaves it unchanged.
    public static let freshSecondsMax = 86_400

    public init(
        settings: Settings, flags: [String: Flag] = [:], etag: String?, confirmedAt: Moment,
        freshSeconds: Int = freshSecondsMax
    ) {
        self.settings = settings
        self.flags = flags
        self.etag = etag
        self.confirmedAt = confirmedAt
        self.freshSeconds = freshSeconds
    }

    /// Returns whether the settings should be requested again. Also returns true if the clock was set back to a time
    /// before `confirmedAt`.
    public func isStale(at now: Moment) -> Bool {
        now < confirmedAt || confirmedAt.advanced(bySeconds: freshSeconds) <= now
    }
}

public enum SettingsFetch {
    /// The result of a request.
    public enum Result: Hashable, Sendable {
        /// The server returned new settings, or confirmed the phone's copy. Store this copy. If the settings changed,
        /// pass them to the engine.
        case current(SettingsCopy)
        /// 401, or 403 whose body is a problem document of this server: get a new token.
        case refreshToken
        /// There was no usable response. The phone's settings stay in force.
        case unavailable
    }

    public static let path = "/native/config"

    /// Returns a request for the settings. If the server has separate settings for some app versions, the app must add
    /// the field `X-App-Version` to this request and to the requests of the event queue.
    ///
    /// - Parameters:
    ///   - copy: the stored copy that was fetched with the same `chargerID`; nil if there is none.
    ///   - chargerID: the charger that the driver targets; nil if there is none.
    public static func request(
        copy: SettingsCopy?, accessToken: String, chargerID: String? = nil
    ) -> HTTPExchange.Request {
        var fields = [HTTPExchange.Field("Authorization", "Bearer \(accessToken)")]
        if let etag = copy?.etag { fields.append(HTTPExchange.Field("If-None-Match", etag)) }
        let query = chargerID.map { "?charger_id=" + percentEncoded($0) } ?? ""
        return HTTPExchange.Request(method: "GET", path: path + query, fields: fields, body: [])
    }

    /// - Parameter copy: the copy that was passed to `request(copy:accessToken:chargerID:)`.
    public static func result(of outcome: HTTPExchange.Outcome, copy: SettingsCopy?, at now: Moment) -> Result {
        guard case .response(let response) = outcome else { return .unavailable }
        switch response.status {
        case 200:
            guard let json = try? JSONValue.parse(response.body), let settings = Settings(configJSON: json) else {
                return .unavailable
            }
            return .current(
                SettingsCopy(
                    settings: settings, flags: flags(in: json), etag: response.field("ETag"), confirmedAt: now,
                    freshSeconds: freshSeconds(response) ?? SettingsCopy.freshSecondsMax))
        case 304:
            guard var copy else { return .unavailable }
            copy.confirmedAt = now
            copy.freshSeconds = freshSeconds(response) ?? copy.freshSeconds
            return .current(copy)
        case 401: return .refreshToken
        // A 403 without a code is from a captive portal or a firewall, and says nothing about the token.
        case 403 where (try? JSONValue.parse(response.body))?["code"]?.text != nil: return .refreshToken
        default: return .unavailable
        }
    }

    private static func flags(in json: JSONValue) -> [String: SettingsCopy.Flag] {
        guard case .object(let members)? = json["flags"] else { return [:] }
        return members.reduce(into: [:]) { flags, member in
            switch member.value {
            case .bool(let value): flags[member.name] = .bool(value)
            case .string(let text): flags[member.name] = .text(text)
            case .null, .number, .array, .object: break
            }
        }
    }

    private static func freshSeconds(_ response: HTTPExchange.Response) -> Int? {
        let directives = response.field("Cache-Control")?.split(separator: ",") ?? []
        return directives.lazy.compactMap { directive -> Int? in
            let pair = directive.split(separator: "=")
            guard pair.count == 2, pair[0].drop(while: { $0 == " " }) == "max-age", let seconds = Int(pair[1]),
                seconds >= 0
            else { return nil }
            return min(seconds, SettingsCopy.freshSecondsMax)
        }.first
    }

    /// Percent-encodes everything except letters, digits and -._~ (RFC 3986, section 2.3).
    private static func percentEncoded(_ text: String) -> String {
        let digits = Array("0123456789ABCDEF")
        return text.utf8.reduce(into: "") { encoded, byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E:
                encoded.unicodeScalars.append(Unicode.Scalar(byte))
            default:
                encoded += "%"
                encoded.append(digits[Int(byte >> 4)])
                encoded.append(digits[Int(byte & 15)])
            }
        }
    }
}
