// Copies an SQLite database to PostgreSQL (docs/several-servers.md). Servers may still use the SQLite database during
// the first passes. Each pass copies the rows of all drivers that have changed since they were copied.
//
// The last pass begins when no other process has the SQLite database open. It copies the remaining drivers and the
// shared tables. Servers can then start on the target.
//
// The target keeps a `TransferredDriver` for each driver, which records the state in which the driver was copied. If a
// transfer is interrupted, the next run compares these records with the source. It copies only missing and changed
// drivers.

/// A progress message of a transfer to the operator.
package enum TransferReport: Hashable, Sendable, CustomStringConvertible {
    /// An interrupted run has already copied `copiedCount` of the `driverCount` drivers.
    case begins(driverCount: Int, copiedCount: Int)
    /// Of the `total` drivers of this pass, `done` are copied.
    case copies(done: Int, total: Int)
    case passed(TransferPass)
    /// A process has the database open. The most recent pass took `milliseconds`.
    case waits(milliseconds: Int)
    case finishes
    case isDone(TransferPass)

    package var description: String {
        switch self {
        case .begins(let driverCount, 0): "\(driverCount) drivers are to be copied"
        case .begins(let driverCount, let copiedCount):
            "continues: of \(driverCount) drivers, \(copiedCount) were copied by an earlier run"
        case .copies(let done, let total): "\(done) of \(total) drivers copied"
        case .passed(let pass): "copied \(pass)"
        case .waits(let milliseconds):
            """
            stop the server now, and everything else that has the database open (Litestream, shells); the rest takes \
            about \(milliseconds / 1000 + 1) s and begins by itself. Until then, what changes is copied again and again
            """
        case .finishes: "nothing has the database open: copies the rest"
        case .isDone(let pass): "the transfer is complete: \(pass) since the database was free"
        }
    }
}

package struct TransferPass: Hashable, Sendable, CustomStringConvertible {
    package var drivers = 0
    package var events = 0
    package var milliseconds = 0

    package var description: String {
        let rate = milliseconds > 0 ? ", \(events * 1000 / milliseconds)/s" : ""
        return "\(drivers) drivers and \(events) events in \(milliseconds / 1000).\(milliseconds / 100 % 10) s\(rate)"
    }
}

/// Thrown if a transfer cannot begin or continue. `description` is a sentence for the operator.
package struct TransferRefusal: Error, Hashable, Sendable, CustomStringConvertible {
    package var description: String

    package init(_ description: String) {
        self.description = description
    }
}

package struct DatabaseTransfer: Sendable {
    /// The pause between two attempts to lock the source.
    private static let pause = Duration.milliseconds(500)
    /// Passes run without a pause until one of them takes at most this many milliseconds.
    private static let shortMilliseconds = 1000
    /// The pause after a pass is this many times as long as the pass, but at least 5 s. This leaves most of the
    /// processor's time to the servers.
    private static let pauseFactor = 10

    /// Opens the source for one pass, while servers may use it.
    let open: @Sendable () throws -> any TransferSource
    /// Opens the source for this process alone. Returns nil if another process has it open.
    let lock: @Sendable () throws -> (any TransferSource)?
    let target: any TransferTarget
    let report: @Sendable (TransferReport) -> Void

    package init(
        open: @escaping @Sendable () throws -> any TransferSource,
        lock: @escaping @Sendable () throws -> (any TransferSource)?, target: any TransferTarget,
        report: @escaping @Sendable (TransferReport) -> Void
    ) {
        (self.open, self.lock, self.target, self.report) = (open, lock, target, report)
    }

    /// The drivers that the target has. The target has all events of these drivers with numbers up to `checkedEvent`.
    /// If there are no drivers yet, `checkedEvent` is `.max`.
    private struct Copied {
        var drivers: [Int64: TransferredDriver]
        var checkedEvent: Int64

        init(_ drivers: [Int64: TransferredDriver]) {
            self.drivers = drivers
            checkedEvent = drivers.values.lazy.map(\.lastEvent).min() ?? .max
        }
    }

    /// Runs the transfer, and returns when the target is complete. Waits until no other process has the source open.
    package func run() async throws {
        var copied = try await begin()
        var hasReported = false
        while true {
            if let source = try lock() {
                defer { source.close() }
                return try await finish(source, &copied)
            }
            var pass = try await passing(&copied)
            if !hasReported {
                pass = try await shortened(pass, &copied)
                report(.waits(milliseconds: pass.milliseconds))
            }
            hasReported = true
            let end = ContinuousClock.now + .milliseconds(max(5000, pass.milliseconds * Self.pauseFactor))
            while ContinuousClock.now < end, try !isFree() { try await Task.sleep(for: Self.pause) }
        }
    }

    private func isFree() throws -> Bool {
        guard let source = try lock() else { return false }
        source.close()
        return true
    }

    private func begin() async throws -> Copied {
        let source = try open()
        defer { source.close() }
        if let obstacle = try source.obstacle(isFinal: false) { throw TransferRefusal(obstacle) }
        let copied = Copied(try await target.begin(try source.identity()))
        report(.begins(driverCount: try source.drivers().count, copiedCount: copied.drivers.count))
        return copied
    }

    // MARK: Passes

    private func passing(_ copied: inout Copied) async throws -> TransferPass {
        let source = try open()
        defer { source.close() }
        let isFirst = copied.checkedEvent == .max
        let pass = try await pass(source, &copied)
        if isFirst { try await target.analyze() }
        report(.passed(pass))
        return pass
    }

    /// Runs passes without a pause to make the last pass short, because no server runs during the last pass. Ends after
    /// a pass of at most `shortMilliseconds`. Also ends after a pass that took at least half as long as the previous
    /// one.
    private func shortened(_ first: TransferPass, _ copied: inout Copied) async throws -> TransferPass {
        var pass = first
        while pass.milliseconds > Self.shortMilliseconds {
            let next = try await passing(&copied)
            let isShorter = next.milliseconds * 2 < pass.milliseconds
            pass = next
            if !isShorter { break }
        }
        return pass
    }

    private func pass(_ source: any TransferSource, _ copied: inout Copied) async throws -> TransferPass {
        let start = ContinuousClock.now
        let found = try source.drivers()
        // When this pass ends, the target has the events of every driver at least up to this number.
        let checkedEvent = found.first?.lastEvent ?? 0
        let newest = copied.drivers.values.lazy.map(\.lastEvent).max() ?? 0
        guard newest <= checkedEvent || found.isEmpty else {
            throw TransferRefusal("the database is older than what was copied before: begin with an empty target")
        }
        let lastEvents = copied.checkedEvent == .max ? [:] : try source.lastEvents(after: copied.checkedEvent)
        let changed = found.filter { driver in
            guard let old = copied.drivers[driver.row] else { return true }
            return old.mark != driver.mark || lastEvents[driver.row].map { $0 > old.lastEvent } ?? false
        }
        let gone = Set(copied.drivers.keys).subtracting(found.map(\.row))
        if !gone.isEmpty { try await target.remove(Array(gone)) }
        for row in gone { copied.drivers[row] = nil }
        var pass = TransferPass()
        try await write(changed, source) { part in
            for driver in part.drivers { copied.drivers[driver.row] = driver }
            pass.drivers += part.drivers.count
            pass.events += part.eventCount
            report(.copies(done: pass.drivers, total: changed.count))
        }
        copied.checkedEvent = checkedEvent
        pass.milliseconds = Int((ContinuousClock.now - start) / .milliseconds(1))
        return pass
    }

    private func write(
        _ drivers: [TransferredDriver], _ source: any TransferSource, _ written: (TransferPart) -> Void
    ) async throws {
        var cursor = TransferCursor(drivers)
        var part = try source.part(at: &cursor)
        while !part.drivers.isEmpty || !part.tables.isEmpty {
            let (current, from) = (part, cursor)
            async let next = Self.part(of: source, from)
            try await target.write(current)
            written(current)
            (part, cursor) = try await next
        }
    }

    @concurrent private static func part(
        of source: any TransferSource, _ cursor: TransferCursor
    ) async throws -> (TransferPart, TransferCursor) {
        var cursor = cursor
        let part = try source.part(at: &cursor)
        return (part, cursor)
    }

    // MARK: The end

    private func finish(_ source: any TransferSource, _ copied: inout Copied) async throws {
        report(.finishes)
        let start = ContinuousClock.now
        if let obstacle = try source.obstacle(isFinal: true) { throw TransferRefusal(obstacle) }
        let isFirst = copied.checkedEvent == .max
        var pass = try await pass(source, &copied)
        if isFirst { try await target.analyze() }
        let columns = try await target.beginLastTransaction()
        for table in TransferredTables.shared {
            var key: [SQLValue]?
            while case let rows = try source.rows(of: table, columns: columns[table] ?? [], after: &key),
                !rows.rows.isEmpty
            {
                try await target.write(rows)
            }
        }
        try await target.commitLastTransaction()
        pass.milliseconds = Int((ContinuousClock.now - start) / .milliseconds(1))
        report(.isDone(pass))
    }
}
