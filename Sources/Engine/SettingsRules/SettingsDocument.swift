// The settings of one driver in the form that phones read, with a tag that changes whenever the content changes.

package import JourneyModel

/// The settings and flags that one driver gets, as phones read them.
package struct SettingsDocument: Hashable, Sendable {
    /// The opaque tag that identifies the content (a strong validator, RFC 9110 section 8.8.1). The tag begins with the
    /// version of the settings. If SETTINGS_RULES_FILE declares flags, the version is followed by a hyphen and a hash
    /// of the flags.
    package var tag: String
    package var json: [UInt8]
    /// The next time at which a rule begins or ends; nil if no rule begins or ends later.
    package var nextChange: Moment?
}
