// `GET /native/config` from the phone's side: ask with the ETag of the copy, and keep the copy when it still holds.

public import JourneyModel

/// The phone's copy of the settings.
public struct SettingsCopy: Hashable, Sendable {
    public var settings: Settings
    /// As the server sent it, with its quotes; nil when it sent none.
    public var etag: String?
    /// When the server last said that these settings hold.
    public var confirmedAt: Moment

    public init(settings: Settings, etag: String?, confirmedAt: Moment) {
        self.settings = settings
        self.etag = etag
        self.confirmedAt = confirmedAt
    }

    /// The server's max-age; asking more often is of no use.
    public static let freshSeconds = 86_400

    /// Whether it is time to ask; also when the clock was set back before the last answer.
    public func isStale(at now: Moment) -> Bool {
        now < confirmedAt || confirmedAt.advanced(bySeconds: Self.freshSeconds) <= now
    }
}

public enum SettingsFetch {
    /// What came of it.
    public enum Result: Hashable, Sendable {
        /// New settings, or the old ones confirmed. Store the copy; tell the engine when the settings changed.
        case current(SettingsCopy)
        /// 401 or 403: get a new token.
        case refreshToken
        /// No answer that could be used: what the phone has stays in force.
        case unavailable
    }

    public static let path = "/native/config"

    public static func request(copy: SettingsCopy?, accessToken: String) -> HTTPExchange.Request {
        var fields = [HTTPExchange.Field("Authorization", "Bearer \(accessToken)")]
        if let etag = copy?.etag { fields.append(HTTPExchange.Field("If-None-Match", etag)) }
        return HTTPExchange.Request(method: "GET", path: path, fields: fields, body: [])
    }

    /// - Parameter copy: the one that the request was made with.
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
    /// The members of `GET /native/config`; others are passed over.
    ///
    /// Nil unless all eight are there and allowed (contract, section 2): an engine does not work with half of a
    /// server's settings, nor with numbers that make no sense.
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
