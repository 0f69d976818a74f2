// The settings of one driver in the form that phones read.

package import JourneyModel

/// The settings and flags that one driver gets, as phones read them.
package struct SettingsDocument: Hashable, Sendable {
    /// Identifies the content (a strong validator, RFC 9110 section 8.8.1). The tag is the version of the settings. If
    /// SETTINGS_RULES_FILE declares flags, a hyphen and a hash of the flags follow.
    package var tag: String
    package var json: [UInt8]
    /// The next time at which a rule begins or ends; nil if there is none.
    package var nextChange: Moment?
}
