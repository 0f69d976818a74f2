// Compares the settings of several servers on one database. Each server regularly writes a row about itself (a
// heartbeat), and compares its settings with those of the other servers. Differences are only reported, because no
// server can decide which settings are right.

import API
import Engine
import Foundation
import Identity
import JourneyModel
import Logging
import MetricInstruments
import Secrets
import Synchronization

extension MetricFamily {
    static let instances = MetricFamily(
        "dwell_instances", "Running servers on this database, including this one.")
    static let instancesDiffering = MetricFamily(
        "dwell_instances_differing", "Other servers with different settings; 0 is normal.")
}

struct InstanceService: Sendable {
    /// The pause between two heartbeats. Each heartbeat is a write. With SQLite, a large WAL is truncated only after
    /// ten seconds without a write, so the pause must be longer than ten seconds.
    static let pause = Duration.seconds(30)

    let store: any InstanceStore
    let name: String
    let startedAt: Moment
    let settings: CurrentSettings
    private let status: SettingsStatus
    private let digests: KeyedHashes
    let clock: @Sendable () -> Moment
    let logger: Logger
    private let reported = ReportedDifferences()

    /// The differences that were logged last. They are kept so that each difference is logged only once.
    private final class ReportedDifferences: Sendable {
        private let lines = Mutex<Set<String>>([])

        /// Stores the current differences. Returns the differences that the previous call did not store.
        func replace(with now: Set<String>) -> Set<String> {
            lines.withLock { lines in
                defer { lines = now }
                return now.subtracting(lines)
            }
        }
    }

    init(
        _ status: SettingsStatus, name: String, store: any InstanceStore, digests: KeyedHashes,
        settings: CurrentSettings, startedAt: Moment, clock: @escaping @Sendable () -> Moment, logger: Logger
    ) {
        self.store = store
        self.name = name
        self.status = status
        self.digests = digests
        self.settings = settings
        self.startedAt = startedAt
        self.clock = clock
        self.logger = logger
    }

    /// Sends heartbeats until the task is cancelled. `Task.sleep` throws only when the task is cancelled.
    func run() async {
        repeat { await sendHeartbeat() } while (try? await Task.sleep(for: Self.pause)) != nil
    }

    func end() async {
        do throws(StoreFailure) {
            try await store.removeInstance(name, startedAt: startedAt)
        } catch {
            logger.debug("removing the server's row failed", metadata: ["failure": "\(error)"])
        }
    }

    func sendHeartbeat() async {
        do throws(StoreFailure) {
            try await store.heartbeat(own)
            logDifferences(try await store.instances())
        } catch {
            if error != .cancelled {
                logger.warning("writing the server's heartbeat failed", metadata: ["failure": "\(error)"])
            }
        }
    }

    private var own: Instance {
        let (inForce, rules) = settings.readWithRules()
        var shared = Self.shared(status.inForce, digests: digests)
        // Compare the version of the rules file's content, because the path of the file may differ between servers.
        shared[Variables.settingsRulesFile.name] = rules?.version ?? "not set"
        return Instance(
            name: name, version: version, settingsVersion: inForce.version, settings: shared, startedAt: startedAt,
            heartbeatAt: clock())
    }

    /// Returns the other live servers, each with the names of the settings that differ from this server's settings. For
    /// a server with another version of Dwell, the names include `the version`.
    func differences(_ instances: [Instance]) -> [(instance: Instance, names: [String])] {
        let own = own
        return instances.filter { $0.name != name && $0.isAlive(at: own.heartbeatAt) }.map { other in
            var names = own.differences(
                from: other, secretNames: Self.secretNames, signingKeyNames: Self.signingKeyNames)
            if other.version != version { names.append("the version") }
            return (other, names)
        }
    }

    /// Returns the servers for /ops and /metrics. Returns none when the database cannot be read.
    func states() async -> [InstanceState] {
        guard let instances = try? await store.instances() else { return [] }
        let now = clock()
        var different: [String: [String]] = [:]
        for (instance, names) in differences(instances) { different[instance.name] = names }
        return instances.map { instance in
            // For this server, use the current state. The stored row may be older than the last reload.
            let instance = instance.name == name ? own : instance
            return InstanceState(
                instance: instance, isAlive: instance.isAlive(at: now), isThisOne: instance.name == name,
                differences: different[instance.name] ?? [])
        }
    }

    private func logDifferences(_ instances: [Instance]) {
        var lines: [String: (other: String, names: String)] = [:]
        for (other, names) in differences(instances) where !names.isEmpty {
            let list = names.joined(separator: ", ")
            lines["\(other.name): \(list)"] = (other.name, list)
        }
        for line in reported.replace(with: Set(lines.keys)) {
            guard let (other, names) = lines[line] else { continue }
            logger.warning(
                "another server on this database has different settings",
                metadata: ["instance": "\(other)", "settings": "\(names)"])
        }
    }

    // MARK: Compared settings

    /// The settings that are not compared, because they may differ between servers on one database.
    private static let own: Set<String> = [
        Variables.instanceName.name, Variables.environmentFile.name, Variables.logLevel.name,
        Variables.logFormat.name, Variables.logRefusalsPerClient.name, Variables.logRefusalsPerSecond.name,
        Variables.hosts.name, Variables.port.name, Variables.unixSocket.name, Variables.eventLoops.name,
        Variables.connectionsMax.name, Variables.connectionsPerAddressMax.name, Variables.databasePath.name,
        Variables.databaseURL.name,
        Variables.metricsPort.name, Variables.metricsHost.name, Variables.settingsChangedBy.name,
        Variables.settingsChangeReason.name, Variables.privacyFile.name, Variables.termsFile.name,
        Variables.supportFile.name,
    ]
    private static let secretNames = Set(Variables.all.filter(\.isSecret).map(\.name))
    private static let signingKeyNames: Set<String> = [Variables.jwtSecret.name, Variables.jwtPrivateKeyFile.name]

    /// Returns the settings in force that should be equal on all servers with this database. A digest replaces each
    /// secret.
    private static func shared(_ variables: [ReadVariable], digests: KeyedHashes) -> [String: String] {
        var settings: [String: String] = [:]
        for variable in variables where !own.contains(variable.declaration.name) {
            let name = variable.declaration.name
            settings[name] =
                variable.declaration.isSecret ? digests.settingName(variable.text.reveal(), of: name) : variable.shown
        }
        return settings
    }
}
