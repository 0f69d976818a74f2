// Reads settings from the texts of environment variables, which the caller supplies.

/// The error for an invalid environment variable. If it occurs at the server's start, the server exits. If it occurs on
/// a reload, the old settings stay in force.
public struct SettingsError: Error, Hashable, Sendable, CustomStringConvertible {
    public var variable: String
    /// The value of the variable. If the variable is not set, the setting's value in the argument `base` of
    /// `Settings.make`. The only possible error of such a value is that it exceeds another setting that limits it.
    public var value: String
    public var allowed: String

    /// The error as one line. Control characters in the value are escaped, and only the first 64 characters of the
    /// value are shown.
    public var description: String {
        let shown = value.unicodeScalars.prefix(64).map { $0.isControl ? $0.escaped(asASCII: true) : String($0) }
        return "\(variable)=\(shown.joined()) is not allowed; allowed is \(allowed)"
    }
}

extension Settings {
    /// The errors in all invalid variables, in the order of the declarations.
    public struct Invalid: Error, Hashable, Sendable {
        public var errors: [SettingsError]
    }

    /// Reads the eight settings. `text` returns the value of a variable, or nil if the variable is not set. A setting
    /// whose variable is not set keeps its value from `base`.
    ///
    /// A number consists of digits and, for a decimal setting, optionally a fraction. It has no sign, exponent, white
    /// space or unit. Throws `Invalid` with one error for each setting that is not a number, is out of range, or
    /// exceeds another setting that limits it.
    public static func make(
        over base: Settings = Settings(), from text: (_ variable: String) -> String?
    ) throws(Invalid) -> Settings {
        var settings = base
        var errors: [SettingsError] = []
        for declaration in declarations {
            guard let text = text(declaration.variable) else { continue }
            if !declaration.read(text, into: &settings) {
                errors.append(
                    SettingsError(variable: declaration.variable, value: text, allowed: declaration.allowed))
            }
        }
        errors += settings.pairErrors(except: Set(errors.map(\.variable)))
        if errors.isEmpty { return settings }
        let order = declarations.map(\.variable)
        throw Invalid(
            errors: order.flatMap { variable in errors.filter { $0.variable == variable } })
    }

    /// Returns an error for each violated rule about two settings. The two rules are: anchor radius <= intent radius,
    /// and grace period <= hard timeout.
    private func pairErrors(except faulty: Set<String>) -> [SettingsError] {
        Self.declarations.compactMap { declaration in
            guard let limit = Self.declarations.first(where: { $0.variable == declaration.alsoAtMost }),
                faulty.isDisjoint(with: [declaration.variable, limit.variable]),
                declaration.number(in: self) > limit.number(in: self)
            else { return nil }
            return SettingsError(
                variable: declaration.variable, value: declaration.text(in: self),
                allowed: "\(declaration.allowed), which is \(limit.text(in: self))")
        }
    }
}

extension Settings.Declaration {
    /// Returns whether the text is a number of this setting's kind and in its range. Does not compare the number with a
    /// setting that limits this one (`alsoAtMost`).
    public func accepts(_ text: String) -> Bool {
        var settings = Settings()
        return read(text, into: &settings)
    }

    fileprivate func number(in settings: Settings) -> Double {
        switch value {
        case .integer(let path): Double(settings[keyPath: path])
        case .decimal(let path): settings[keyPath: path]
        }
    }

    /// Reads `text` into `settings`. If the text is not a number of this setting's kind, or is out of range, returns
    /// false and sets nothing.
    fileprivate func read(_ text: String, into settings: inout Settings) -> Bool {
        let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        let areDigits = parts.allSatisfy { !$0.isEmpty && $0.allSatisfy(\.isASCIIDigit) }
        guard areDigits, parts.count <= 2 else { return false }
        switch value {
        case .integer(let path):
            guard let number = Int(text), number > 0, Double(number) <= valueMax else { return false }
            settings[keyPath: path] = number
        case .decimal(let path):
            guard let number = Double(text), number > 0, number <= valueMax else { return false }
            settings[keyPath: path] = number
        }
        return true
    }
}
