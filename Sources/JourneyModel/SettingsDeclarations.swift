// The declarations of the eight settings: their names on the wire and in the environment, and their ranges (contract,
// section 2). All code that reads, checks, documents or writes settings uses this list.

extension Settings {
    /// One row of the contract's table.
    public struct Declaration: Sendable {
        /// The member of `Settings` that holds the value: `integer` if only whole numbers are allowed, otherwise
        /// `decimal`.
        public enum Value: Sendable {
            case integer(any WritableKeyPath<Settings, Int> & Sendable)
            case decimal(any WritableKeyPath<Settings, Double> & Sendable)
        }

        /// The member of `GET /native/config`.
        public let field: String
        /// The environment variable.
        public let variable: String
        public let value: Value
        /// The largest allowed value. Every value must also be greater than 0.
        public let valueMax: Double
        /// The environment variable of the setting that this setting must not exceed, for example
        /// `NATIVE_CHARGER_INTENT_RADIUS_M`. Nil if there is no such setting.
        public let alsoAtMost: String?

        /// The range as text, for example `0 < x <= 100, and <= NATIVE_CHARGER_INTENT_RADIUS_M`. For a whole number,
        /// the letter is `n` instead of `x`.
        public var allowed: String {
            let letter =
                switch value {
                case .integer: "n"
                case .decimal: "x"
                }
            let range = "0 < \(letter) <= \(Settings.text(of: valueMax))"
            return alsoAtMost.map { "\(range), and <= \($0)" } ?? range
        }

        /// Returns the value as written on the wire and in an environment file, for example `400` or `1.5`.
        public func text(in settings: Settings) -> String {
            switch value {
            case .integer(let path): String(settings[keyPath: path])
            case .decimal(let path): Settings.text(of: settings[keyPath: path])
            }
        }

        /// The default, in the notation of `text(in:)`.
        public var defaultText: String { text(in: Settings()) }

        fileprivate init(
            _ field: String, _ variable: String, _ value: Value, max: Double, alsoAtMost: String? = nil
        ) {
            self.field = field
            self.variable = variable
            self.value = value
            valueMax = max
            self.alsoAtMost = alsoAtMost
        }
    }

    /// All declarations, in the order of the contract's table. The order on the wire is the same.
    public static let declarations: [Declaration] = [
        Declaration(
            "chargerIntentRadius_m", "NATIVE_CHARGER_INTENT_RADIUS_M", .decimal(\.chargerIntentRadiusMeters),
            max: 1000),
        Declaration(
            "chargerAnchorRadius_m", "NATIVE_CHARGER_ANCHOR_RADIUS_M", .decimal(\.chargerAnchorRadiusMeters),
            max: 100, alsoAtMost: "NATIVE_CHARGER_INTENT_RADIUS_M"),
        Declaration("chargerDwellSeconds", "NATIVE_CHARGER_DWELL_SECONDS", .integer(\.chargerDwellSeconds), max: 600),
        Declaration(
            "merchantUnlockRadius_m", "NATIVE_MERCHANT_UNLOCK_RADIUS_M", .decimal(\.merchantUnlockRadiusMeters),
            max: 200),
        Declaration(
            "gracePeriodSeconds", "NATIVE_GRACE_PERIOD_SECONDS", .integer(\.gracePeriodSeconds), max: 3600,
            alsoAtMost: "NATIVE_HARD_TIMEOUT_SECONDS"),
        Declaration("hardTimeoutSeconds", "NATIVE_HARD_TIMEOUT_SECONDS", .integer(\.hardTimeoutSeconds), max: 7200),
        Declaration(
            "locationAccuracyThreshold_m", "NATIVE_LOCATION_ACCURACY_THRESHOLD_M",
            .decimal(\.locationAccuracyThresholdMeters), max: 200),
        Declaration(
            "speedThresholdForDwell_mps", "NATIVE_SPEED_THRESHOLD_FOR_DWELL_MPS",
            .decimal(\.speedThresholdForDwellMetersPerSecond), max: 10),
    ]

    /// Returns the shortest text that reads back as the same Double: `400`, not `400.0`.
    static func text(of number: Double) -> String {
        let text = "\(number)"
        return text.hasSuffix(".0") ? String(text.dropLast(2)) : text
    }
}
