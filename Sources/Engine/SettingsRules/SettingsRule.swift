// One rule of the file SETTINGS_RULES_FILE: to whom it applies, and which settings and flags it sets. Whether a rule
// applies depends only on the driver, the charger, the app version and the time.

package import JourneyModel

/// The value of a flag.
package enum FlagValue: Hashable, Sendable {
    case bool(Bool)
    case text(String)
}

/// A set of ids that are compared byte by byte. String would treat canonically equivalent ids as equal.
package struct IDSet: Hashable, Sendable {
    private let ids: Set<[UInt8]>

    package init(_ ids: [String]) {
        self.ids = Set(ids.map { Array($0.utf8) })
    }

    package var count: Int { ids.count }

    package func contains(_ id: String) -> Bool { ids.contains(Array(id.utf8)) }
}

/// Which app versions a rule applies to.
package enum AppVersionCondition: Hashable, Sendable {
    case listed([AppVersion])
    /// All versions from `min` (inclusive) to `below` (exclusive). A nil bound means that there is no limit on that
    /// side.
    case range(min: AppVersion?, below: AppVersion?)

    func contains(_ version: AppVersion) -> Bool {
        switch self {
        case .listed(let versions): versions.contains(version)
        case .range(let min, let below): min.map { $0 <= version } ?? true && below.map { version < $0 } ?? true
        }
    }
}

/// What the rules need to know about a request, except the charger. For an event, only the store knows the charger.
package struct SettingsSubject: Hashable, Sendable {
    package var driver: DriverID
    /// Nil if the request names no version, or an invalid one.
    package var appVersion: AppVersion?
    package var at: Moment

    package init(driver: DriverID, appVersion: AppVersion?, at: Moment) {
        (self.driver, self.appVersion, self.at) = (driver, appVersion, at)
    }
}

/// Why a rule does not apply to a request: the first of the rule's conditions that is not met.
package enum SettingsMismatch: Hashable, Sendable, CustomStringConvertible {
    case notYet(from: Moment)
    case over(until: Moment)
    case otherDriver
    case noAppVersion
    case otherAppVersion(AppVersion)
    case outsideShare(position: Int, share: SettingsShare)
    case noCharger
    case otherCharger

    package var description: String {
        switch self {
        case .notYet(let from): "it begins at \(RFC3339.text(of: from))"
        case .over(let until): "it ended at \(RFC3339.text(of: until))"
        case .otherDriver: "it does not list this driver"
        case .noAppVersion: "it is for certain app versions, and the request names none"
        case .otherAppVersion(let version): "it is not for app version \(version)"
        case .outsideShare(let position, let share):
            "this driver is at \(SettingsShare.percent(position)), outside its share of \(share)"
        case .noCharger: "it is for certain chargers, and no charger is known"
        case .otherCharger: "it does not list this charger"
        }
    }
}

package struct SettingsRule: Hashable, Sendable {
    /// A setting that the rule changes.
    package struct Value: Hashable, Sendable {
        /// The name in `GET /native/config`, for example `gracePeriodSeconds`.
        package var field: String
        /// The environment variable of the same setting.
        package var variable: String
        /// The value as written in the file, for example `1200`.
        package var text: String
    }

    package var name: String
    package var reason: String
    /// The time from which the rule applies.
    package var from: Moment?
    /// The time from which the rule no longer applies.
    package var until: Moment?
    package var share: SettingsShare?
    package var drivers: IDSet?
    package var chargers: IDSet?
    package var versions: AppVersionCondition?
    package var values: [Value]
    package var flags: [String: FlagValue]

    package func mismatch(at now: Moment) -> SettingsMismatch? {
        if let from, now < from { return .notYet(from: from) }
        if let until, until <= now { return .over(until: until) }
        return nil
    }

    /// Returns the first condition that the request does not meet; nil if it meets all. Leaves out the condition about
    /// chargers, which `mismatch(charger:)` compares. The share is compared last, because its hash takes longer than
    /// the other comparisons.
    func mismatch(_ subject: SettingsSubject) -> SettingsMismatch? {
        if let mismatch = mismatch(at: subject.at) { return mismatch }
        if let drivers, !drivers.contains(subject.driver.rawValue) { return .otherDriver }
        if let versions {
            guard let version = subject.appVersion else { return .noAppVersion }
            guard versions.contains(version) else { return .otherAppVersion(version) }
        }
        if let share {
            let position = SettingsShare.position(of: subject.driver, inRule: name)
            guard share.contains(position) else { return .outsideShare(position: position, share: share) }
        }
        return nil
    }

    func mismatch(charger: String?) -> SettingsMismatch? {
        guard let chargers else { return nil }
        guard let charger else { return .noCharger }
        return chargers.contains(charger) ? nil : .otherCharger
    }
}
