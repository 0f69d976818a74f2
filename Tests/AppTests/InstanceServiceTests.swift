// Tests how servers that share a database compare their settings. One of the servers has reloaded its settings.

import API
import Engine
import Identity
import JourneyModel
import Logging
import Secrets
import Synchronization
import TestSupport
import Testing

@testable import App

@Suite struct InstanceServiceTests {
    private final class ScriptedInstances: InstanceStore {
        private let rows = Mutex<[String: Instance]>([:])

        func heartbeat(_ instance: Instance) async throws(StoreFailure) {
            rows.withLock { $0[instance.name] = instance }
        }

        func removeInstance(_ name: String, startedAt: Moment) async throws(StoreFailure) {
            rows.withLock { $0[name] = nil }
        }

        func instances() async throws(StoreFailure) -> [Instance] {
            rows.withLock { rows in rows.values.sorted { $0.name < $1.name } }
        }
    }

    private struct Server {
        private let status: SettingsStatus
        private let service: InstanceService

        /// Starts with the settings in the environment.
        init(_ name: String, on store: any InstanceStore, _ environment: [String: String]) async throws {
            status = SettingsStatus(report(environment), at: .sample)
            let key = try SigningKey(secret: Secret(ConfigurationTests.secret))
            service = InstanceService(
                status, name: name, store: store, digests: KeyedHashes(signingKey: key),
                settings: CurrentSettings(VersionedSettings(Settings())), startedAt: .sample, clock: { .sample },
                logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
            await service.sendHeartbeat()
        }

        /// Returns the settings that need a restart.
        @discardableResult
        func reload(_ environment: [String: String]) async -> [String] {
            let needsRestart = status.reloaded(report(environment), at: .sample)
            await service.sendHeartbeat()
            return needsRestart
        }

        /// The settings of other servers that differ from this server's.
        var differences: [String] {
            get async { await service.states().flatMap(\.differences) }
        }
    }

    private let store = ScriptedInstances()

    @Test func `a reload of one server makes a difference until the other one is reloaded too`() async throws {
        let (old, new) = (["NATIVE_GRACE_PERIOD_SECONDS": "60"], ["NATIVE_GRACE_PERIOD_SECONDS": "90"])
        let one = try await Server("one", on: store, old)
        let two = try await Server("two", on: store, old)
        for server in [one, two] { #expect(await server.differences == []) }
        await one.reload(new)
        for server in [one, two] { #expect(await server.differences == ["NATIVE_GRACE_PERIOD_SECONDS"]) }
        await two.reload(new)
        for server in [one, two] { #expect(await server.differences == []) }
        let restarted = try await Server("one", on: store, new)
        for server in [restarted, two] { #expect(await server.differences == []) }
    }

    @Test func `a changed setting makes a difference only once it is in force`() async throws {
        let one = try await Server("one", on: store, [:])
        let two = try await Server("two", on: store, [:])
        #expect(await one.reload(["RATE_LIMIT_AUTH": "77"]) == ["RATE_LIMIT_AUTH"])
        #expect(await two.differences == [])
        let restarted = try await Server("one", on: store, ["RATE_LIMIT_AUTH": "77"])
        for server in [restarted, two] { #expect(await server.differences == ["RATE_LIMIT_AUTH"]) }
    }
}
