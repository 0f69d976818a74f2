// The response of `GET /ops/config`: every setting of the running server, and the result of the last reload. The
// response of `/ops/picture` also contains that result.

package import Engine
package import JourneyModel

package struct ServerSettings: Sendable {
    package struct Setting: Hashable, Sendable {
        package var name: String
        /// The value as text. For a secret, the text says only whether the secret is set.
        package var value: String
        package var source: String

        package init(name: String, value: String, source: String) {
            (self.name, self.value, self.source) = (name, value, source)
        }
    }

    package struct Reload: Hashable, Sendable {
        package var at: Moment
        /// Whether the reload succeeded. A failed reload changes nothing.
        package var isGood: Bool
        /// The reasons why the reload failed, one sentence each.
        package var problems: [String]

        package init(at: Moment, isGood: Bool, problems: [String]) {
            (self.at, self.isGood, self.problems) = (at, isGood, problems)
        }
    }

    package struct Unknown: Hashable, Sendable {
        package var name: String
        /// The variable that the operator probably meant; nil if no name is similar.
        package var nearest: String?

        package init(name: String, nearest: String?) {
            (self.name, self.nearest) = (name, nearest)
        }
    }

    package var instance: String
    package var startedAt: Moment
    /// When the settings in force were read: at the start, or at the last successful reload.
    package var loadedAt: Moment
    /// The last reload; nil if there was no reload since the start.
    package var reload: Reload?
    /// The names of the settings that have a new value in the file. The new value takes effect only after a restart.
    package var needsRestart: [String]
    /// The names in the file that are not names of variables.
    package var unknown: [Unknown]
    package var settings: [Setting]

    package init(
        instance: String, startedAt: Moment, loadedAt: Moment, reload: Reload?, needsRestart: [String],
        unknown: [Unknown], settings: [Setting]
    ) {
        (self.instance, self.startedAt, self.loadedAt) = (instance, startedAt, loadedAt)
        (self.reload, self.needsRestart, self.unknown, self.settings) = (reload, needsRestart, unknown, settings)
    }

    /// Encodes the response of `GET /ops/config`.
    func json(version: String, settingsVersion: String) -> [UInt8] {
        var writer = JSONWriter(reservingBytes: 8192)
        writer.beginObject()
        writer.member("instance", instance)
        writer.member("version", version)
        writer.member("started_at", RFC3339.text(of: startedAt))
        writer.member("settings_version", settingsVersion)
        writeReload(&writer)
        writer.name("settings")
        writer.beginArray()
        for setting in settings {
            writer.beginObject()
            writer.member("name", setting.name)
            writer.member("value", setting.value)
            writer.member("source", setting.source)
            if needsRestart.contains(setting.name) {
                writer.name("needs_restart")
                writer.bool(true)
            }
            writer.endObject()
        }
        writer.endArray()
        writer.endObject()
        return writer.bytes
    }

    /// Writes the member `settings_reload` of `/ops/config` and `/ops/picture`. The member has no `last_attempt_at` if
    /// there was no reload since the start.
    func writeReload(_ writer: inout JSONWriter) {
        writer.name("settings_reload")
        writer.beginObject()
        writer.member("loaded_at", RFC3339.text(of: loadedAt))
        if let reload { writer.member("last_attempt_at", RFC3339.text(of: reload.at)) }
        writer.name("is_good")
        writer.bool(reload?.isGood ?? true)
        writer.texts("problems", reload?.problems ?? [])
        writer.texts("needs_restart", needsRestart)
        writer.name("unknown")
        writer.beginArray()
        for unknown in unknown {
            writer.beginObject()
            writer.member("name", unknown.name)
            if let nearest = unknown.nearest { writer.member("nearest", nearest) }
            writer.endObject()
        }
        writer.endArray()
        writer.endObject()
    }
}

/// One of the servers that use this database, as the operator page shows it.
package struct InstanceState: Sendable {
    package var instance: Instance
    package var isAlive: Bool
    package var isThisOne: Bool
    /// The names of the settings whose values differ between this instance and the server that sends the response.
    package var differences: [String]

    package init(instance: Instance, isAlive: Bool, isThisOne: Bool, differences: [String]) {
        (self.instance, self.isAlive) = (instance, isAlive)
        (self.isThisOne, self.differences) = (isThisOne, differences)
    }

    /// Writes the member `instances` of `/ops/picture`.
    static func write(_ states: [InstanceState], _ writer: inout JSONWriter) {
        writer.name("instances")
        writer.beginArray()
        for state in states {
            writer.beginObject()
            writer.member("name", state.instance.name)
            writer.member("version", state.instance.version)
            writer.member("settings_version", state.instance.settingsVersion)
            writer.member("started_at", RFC3339.text(of: state.instance.startedAt))
            writer.member("heartbeat_at", RFC3339.text(of: state.instance.heartbeatAt))
            writer.name("is_alive")
            writer.bool(state.isAlive)
            writer.name("is_this_one")
            writer.bool(state.isThisOne)
            writer.texts("differences", state.differences)
            writer.endObject()
        }
        writer.endArray()
    }
}

extension JSONWriter {
    fileprivate mutating func texts(_ name: String, _ texts: [String]) {
        self.name(name)
        beginArray()
        for text in texts { string(text) }
        endArray()
    }
}
