// The routes that operator commands call on a running server through its control socket, a Unix socket beside the
// database file. A server that uses PostgreSQL has no control socket, and no public listener has these routes.
//
// Only the socket's owner can open the socket, so the file permissions are the credential. The contract does not
// describe these routes, because the command and the server always have the same version.

package import Engine
import HTTP1
package import HTTPServer
package import Identity
package import JourneyModel
package import Logging

package struct ControlRoutes: Sendable {
    package static let statusPath = "/control"
    package static let signOutPath = "/control/sign-out"
    package static let erasePath = "/control/erase"
    package static let repeatErasuresPath = "/control/repeat-erasures"
    package static let correctPath = "/control/correct-settings"
    package static let finishCorrectionPath = "/control/finish-correction"
    package static let refoldPath = "/control/refold"
    /// The maximum time for which one request refolds drivers. It is short, so that refolding stops soon after the
    /// operator interrupts the command.
    private static let refoldTime = Duration.milliseconds(250)
    /// The maximum number of deletions in one request. It keeps the body of a request below about 100 KB.
    package static let erasuresMax = 500

    private static let bodyBytesMax = 128 * 1024

    private let accounts: OperatorAccounts
    private let refolder: any SettingsCorrecting
    private let logger: Logger
    private let version: String
    private let database: String
    private let clock: @Sendable () -> Moment
    private let failures: AccountFailures

    /// - Parameter database: identifies the database file that this server has open. A request that names another file
    ///   is rejected, because the file may be replaced while the server is running.
    package init(
        accounts: OperatorAccounts, refolder: any SettingsCorrecting, version: String, database: String,
        clock: @escaping @Sendable () -> Moment, logger: Logger
    ) {
        self.accounts = accounts
        self.refolder = refolder
        self.logger = logger
        self.version = version
        self.database = database
        self.clock = clock
        failures = AccountFailures(logger: logger)
    }

    package var routes: [Route] {
        [
            Route(.get, Self.statusPath) { [version] _ in
                Self.json { writer in
                    writer.name("version")
                    writer.string(version)
                }
            },
            route(Self.signOutPath, signOut), route(Self.erasePath, erase),
            route(Self.repeatErasuresPath, repeatErasures), route(Self.correctPath, correct),
            route(Self.finishCorrectionPath, finishCorrection), route(Self.refoldPath, refold),
        ]
    }

    private func route(
        _ path: String, _ handler: @escaping @Sendable (Request) async throws(ProblemResponse) -> Response
    ) -> Route {
        Route(.post, path, bodyBytesMax: Self.bodyBytesMax) { request in
            do throws(ProblemResponse) {
                return try await handler(request)
            } catch {
                return error.response(requestID: request.id)
            }
        }
    }

    /// Signs a driver out. Takes `{"database", "driver_id"}` and returns `{"ended"}`.
    @Sendable private func signOut(_ request: Request) async throws(ProblemResponse) -> Response {
        let driver = try driver(request)
        let count: Int?
        do throws(AccountFailure) {
            count = try await accounts.signOut(driver, at: clock())
        } catch { throw failures.problem(error, request) }
        guard let count else { throw Self.driverNotFound }
        return Self.json { writer in
            writer.name("ended")
            writer.integer(count)
        }
    }

    /// Deletes a driver. Takes `{"database", "driver_id"}` and returns `{"receipt", "deleted_at", "is_in_wal"}`.
    @Sendable private func erase(_ request: Request) async throws(ProblemResponse) -> Response {
        let driver = try driver(request)
        let receipt: ErasureReceipt?
        do throws(AccountFailure) {
            receipt = try await accounts.erase(driver, at: clock())
        } catch { throw failures.problem(error, request) }
        guard let receipt else { throw Self.driverNotFound }
        let isInWAL = await !accounts.finishRemoval()
        return Self.json { writer in
            writer.name("receipt")
            writer.string(receipt.id)
            writer.name("deleted_at")
            writer.string(RFC3339.text(of: receipt.deletedAt))
            writer.name("is_in_wal")
            writer.bool(isInWAL)
        }
    }

    /// Repeats the deletions of drivers whose data a restored backup brought back. Takes `{"database", "erasures",
    /// "dry_run"}`, where `erasures` are lines of the list of deletions.
    ///
    /// Returns `{"drivers": [{"driver_id", "erasure"}], "without_driver", "is_in_wal"}`:
    ///
    /// - `drivers`: the drivers who were deleted again. If `dry_run` is true, no driver is deleted, and `drivers` lists
    ///   those who would be deleted.
    /// - `without_driver`: the lines whose drivers have no data in this database.
    /// - `is_in_wal`: whether SQLite's WAL still contains deleted bytes.
    @Sendable private func repeatErasures(_ request: Request) async throws(ProblemResponse) -> Response {
        let (erasures, isDryRun): ([RecordedErasure], Bool) = try decode(request) { members in
            members.require("erasures")
            let text = members.text("erasures", "must be at most \(Self.erasuresMax) lines") {
                $0.utf8.count <= Self.bodyBytesMax
            }
            let lines = (text ?? "").split(whereSeparator: \.isNewline)
            let erasures = lines.compactMap { RecordedErasure(line: $0) }
            guard erasures.count == lines.count, lines.count <= Self.erasuresMax else {
                members.refuse("erasures", "must be at most \(Self.erasuresMax) lines of the list of deletions")
                return nil
            }
            return (erasures, members.value("dry_run") == .bool(true))
        }
        let missing: MissingErasures
        do throws(AccountFailure) {
            missing =
                isDryRun
                ? try await accounts.missing(erasures) : try await accounts.repeatErasures(erasures, at: clock())
        } catch { throw failures.problem(error, request) }
        let isInWAL = isDryRun || missing.drivers.isEmpty ? false : await !accounts.finishRemoval()
        return Self.json { writer in
            writer.name("drivers")
            writer.beginArray()
            for (driver, erasure) in missing.drivers {
                writer.beginObject()
                writer.name("driver_id")
                writer.string(driver.rawValue)
                writer.name("erasure")
                writer.string(erasure.line)
                writer.endObject()
            }
            writer.endArray()
            writer.name("without_driver")
            writer.beginArray()
            for erasure in missing.withoutDriver { writer.string(erasure.line) }
            writer.endArray()
            writer.name("is_in_wal")
            writer.bool(isInWAL)
        }
    }

    // MARK: Refolds

    /// Records a correction of settings. Takes `{"database", "since_ms", "until_ms", "settings", "instead_of",
    /// "changed_by", "reason"}` and returns the correction. If `instead_of` is present, the correction applies only to
    /// events stored with this settings version.
    @Sendable private func correct(_ request: Request) async throws(ProblemResponse) -> Response {
        let (order, note) = try decode(request) { members -> (CorrectionOrder, SettingsChangeNote)? in
            let since = members.moment("since_ms", isRequired: true)
            let until = members.moment("until_ms")
            for name in ["settings", "changed_by", "reason"] { members.require(name) }
            let settings = members.text("settings")
            let insteadOf = members.text("instead_of")
            let note = SettingsChangeNote(
                changedBy: members.text("changed_by"), reason: members.text("reason", charactersMax: 500))
            guard let since, let settings else { return nil }
            let order = CorrectionOrder(
                since: since, until: until, settings: CorrectedSettings(settings), insteadOf: insteadOf)
            return (order, note)
        }
        let outcome: CorrectionOutcome
        do throws(StoreFailure) {
            outcome = try await refolder.begin(order, note: note, at: clock())
        } catch { throw problem(error, request) }
        switch outcome {
        case .unknownSettings(let version):
            throw ProblemResponse(
                .invalid(
                    InvalidFields([
                        FieldError(
                            pointer: version == order.insteadOf ? "/instead_of" : "/settings",
                            detail: "is not a version that this database knows")
                    ])))
        case .begun(let correction, let continues):
            logger.notice(
                "correction of settings begun",
                metadata: [
                    "correction": "\(correction.id)", "settings": "\(order.settings.text)",
                    "changed_by": "\(note.changedBy ?? "")", "reason": "\(note.reason ?? "")",
                ])
            return Self.json { $0.members(of: correction, continues: continues) }
        }
    }

    /// Records that a correction is complete. Takes `{"database", "correction"}`.
    @Sendable private func finishCorrection(_ request: Request) async throws(ProblemResponse) -> Response {
        let correction = try decode(request) { members in members.integer("correction", isRequired: true) }
        do throws(StoreFailure) {
            try await refolder.finish(correction: correction, at: clock())
        } catch { throw problem(error, request) }
        logger.notice("correction of settings complete", metadata: ["correction": "\(correction)"])
        return Self.json { _ in }
    }

    /// Refolds drivers in the order of their row numbers, from the first row number above `after`. Stops after
    /// `refoldTime`. Takes `{"database", "after", "since_ms", "correction"}`.
    ///
    /// Returns `{"next", "failure"}` and the counts. `next` is the value of `after` for the next request, or null when
    /// all drivers are done. If a driver could not be refolded, `failure` is the reason.
    @Sendable private func refold(_ request: Request) async throws(ProblemResponse) -> Response {
        let refold = try decode(request) { members -> RefoldRequest? in
            let after = members.integer("after", isRequired: true)
            return RefoldRequest(
                after: after ?? 0, since: members.moment("since_ms"), correction: members.integer("correction"),
                now: clock())
        }
        let part: RefoldPart
        do throws(StoreFailure) {
            part = try await refolder.refold(refold, within: Self.refoldTime)
        } catch { throw problem(error, request) }
        return Self.json { $0.members(of: part) }
    }

    private func problem(_ failure: StoreFailure, _ request: Request) -> ProblemResponse {
        logger.storeFailed(failure, request)
        if case .unknown = failure {
            return ProblemResponse(
                .internalError, "The change may or may not be stored. Look at the database's state, then repeat it.")
        }
        return ProblemResponse(reading: failure)
    }

    // MARK: Requests and responses

    private static let driverNotFound = ProblemResponse(.notFound, "Driver not found.")

    private func driver(_ request: Request) throws(ProblemResponse) -> DriverID {
        try decode(request) { members in
            members.require("driver_id")
            return members.text("driver_id", "must be a string") { _ in true }.map { DriverID($0) }
        }
    }

    private func decode<Body>(
        _ request: Request, _ read: (inout MemberReader) -> Body?
    ) throws(ProblemResponse) -> Body {
        try JSONBody.decode(request) { members in
            members.require("database")
            if let named = members.text("database"), named != database {
                members.refuse("database", "is another file than the one that this server has open")
            }
            return read(&members)
        }
    }

    private static func json(_ members: (inout JSONWriter) -> Void) -> Response {
        var writer = JSONWriter(reservingBytes: 128)
        writer.beginObject()
        members(&writer)
        writer.endObject()
        return Response(
            status: .ok, fields: Fields([("Content-Type", "application/json")]), body: .bytes(writer.bytes))
    }
}
