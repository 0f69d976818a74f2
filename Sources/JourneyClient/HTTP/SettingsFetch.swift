// The client side of `GET /native/config`. The request is conditional, with the ETag of the phone's copy. If the server
// confirms that the copy is current, the phone continues to use the copy.

public import JourneyModel

/// The phone's copy of the settings.
public struct SettingsCopy: Hashable, Sendable {
    public var settings: Settings
    /// The ETag as the server sent it, with its quotes; nil if the server sent none.
    public var etag: String?
    /// When the server last confirmed these settings.
    public var confirmedAt: Moment

    public init(settings: Settings, etag: String?, confirmedAt: Moment) {
        self.settings = settings
        self.etag = etag
        self.confirmedAt = confirmedAt
    }

    /// The server's `max-age` in seconds. More frequent requests are useless.
    public static let freshSeconds = 86_400

    /// Returns whether the settings should be requested again. Also returns true if the clock was set back to a time
    /// before `confirmedAt`.
    public func isStale(at now: Moment) -> Bool {
        now < confirmedAt || confirmedAt.advanced(bySeconds: Self.freshSeconds) <= now
    }
}

public enum SettingsFetch {
    /// The result of a request.
    public enum Result: Hashable, Sendable {
        /// The server returned new settings, or confirmed the old ones. Store the copy. If the settings changed, pass
        /// them to the engine.
        case current(SettingsCopy)
        /// 401 or 403: get a new token.
        case refreshToken
        /// There was no usable response. The phone's settings stay in force.
        case unavailable
    }

    public static let path = "/native/config"

    public static func request(copy: SettingsCopy?, accessToken: String) -> HTTPExchange.Request {
        var fields = [HTTPExchange.Field("Authorization", "Bearer \(accessToken)")]
        if let etag = copy?.etag { fields.append(HTTPExchange.Field("If-None-Match", etag)) }
        return HTTPExchange.Request(method: "GET", path: path, fields: fields, body: [])
    }

    /// - Parameter copy: the copy that was passed to `request(copy:accessToken:)`.
    public static func result(of outcome: HTTPExchange.Outcome, copy: SettingsCopy?, at now: Moment) -> Result {
        guard case .response(let response) = outcome else { return .unavailable }
        switch response.status {
        case 200:
            guard let json = try? JSONValue.parse(response.body), let settings = Settings(configJSON: json) else {
                return .unavailable
            }
            return .current(SettingsCopy(settings: settings, etag: response.field("ETag"), confirmedAt: now))
        case 304:
            guard var copy else { return .unavailable }
            copy.confirmedAt = now
            return .current(copy)
        case 401, 403: return .refreshToken
        default: return .unavailable
        }
    }
}

extension Settings {
    /// Reads the settings from the response of `GET /native/config`. Ignores all other members.
    ///
    /// Returns nil unless all eight settings are present and in range (contract, section 2), because an engine must not
    /// use only some of the server's settings.
    public init?(configJSON json: JSONValue) {
        self.init()
        for declaration in Self.declarations {
            guard let number = json[declaration.field]?.double, number > 0, number <= declaration.valueMax else {
                return nil
            }
            switch declaration.value {
            case .decimal(let path): self[keyPath: path] = number
            case .integer(let path):
                guard let whole = Int(exactly: number) else { return nil }
                self[keyPath: path] = whole
            }
        }
        guard chargerAnchorRadiusMeters <= chargerIntentRadiusMeters, gracePeriodSeconds <= hardTimeoutSeconds else {
            return nil
        }
    }
}
