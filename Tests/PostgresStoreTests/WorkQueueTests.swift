// Tests of the queue from which batches take their work.

import Engine
import JourneyModel
import Sockets
import TestSupport
import Testing

@testable import PostgresStore

struct WorkQueueTests {
    /// Returns the work of one event for each element of `drivers`. When all events are answered, `waiting` is resumed
    /// with their outcomes.
    private func works(
        of drivers: [DriverID], _ waiting: CheckedContinuation<[EventOutcome], Never>
    ) -> [(driver: DriverID, work: Work)] {
        let reply = AppendReply(count: drivers.count, waiting)
        return drivers.enumerated().map { index, driver in
            let request = AppendRequest.sample(.sample(.chargerTargeted, key: "k\(index)"), of: driver)
            return (driver, Work(.append(PreparedAppend(request), reply, index: index), until: .inSeconds(60)))
        }
    }

    @Test func `a batch has at most its maximum of works, and the rest of a driver waits`() async throws {
        let queue = WorkQueue(worksMax: 1000, slowMax: 1)
        let drivers = (0..<9).map { DriverID("single-\($0)") } + Array(repeating: DriverID("many"), count: 20)
        let outcomes = await withCheckedContinuation { waiting in
            let works = self.works(of: drivers, waiting)
            Task {
                try queue.add(works)
                var counts: [Int] = []
                while let groups = await queue.take(worksMax: 12) {
                    counts.append(groups.reduce(0) { $0 + $1.works.count })
                    for group in groups {
                        for work in group.works { work.answer(.failure(.unavailable("done"))) }
                        queue.giveBack(group.driver, undone: [])
                    }
                    if counts.reduce(0, +) == drivers.count { break }
                }
                #expect(counts == [12, 12, 5])
            }
        }
        #expect(outcomes.count == drivers.count)
        #expect(queue.count == 0)
    }

    @Test(.timeLimit(.minutes(1)))
    func `while a slow batch is under way, another slow one waits and the others do not`() async throws {
        let queue = WorkQueue(worksMax: 1000, slowMax: 1)
        let drivers = ["contended", "long", "plain", "late"].map { DriverID($0) }
        let outcomes = await withCheckedContinuation { waiting in
            var works = self.works(of: drivers, waiting)
            works[0].work.conflictCount = DriverGroup.conflictsBeforeLock
            works[1].work.isLong = true
            let (first, last) = (Array(works[..<3]), Array(works[3...]))
            Task {
                try queue.add(first)
                let take = { @Sendable in await queue.take(worksMax: 12)?.map(\.driver.rawValue) }
                #expect(await take() == ["contended"])
                #expect(await take() == ["plain"])
                // Only slow work is left, and a slow batch is in progress. This call therefore waits for other work.
                async let next = take()
                try await Task.sleep(for: .milliseconds(50))
                try queue.add(last)
                let later = await next
                #expect(later == ["late"])
                queue.giveBack(drivers[0], undone: [])
                #expect(await take() == ["long"])
                for (driver, work) in first + last {
                    work.answer(.failure(.unavailable("done")))
                    if driver != drivers[0] { queue.giveBack(driver, undone: []) }
                }
            }
        }
        #expect(outcomes.count == drivers.count)
    }

    /// Adds the check of the driver's deadline to the queue, then calls `body`. Answers all work that `body` returns
    /// with a failure. Returns the answer to the check.
    private func check(
        _ driver: DriverID, in queue: WorkQueue, then body: () -> [Work] = { [] }
    ) async -> Result<Bool, StoreFailure> {
        let request = ExpiryRequest(now: .sample, settings: VersionedSettings(Settings()), driversMax: 1)
        return await withCheckedContinuation { waiting in
            let check = Work(.expire(request, waiting), until: .inSeconds(60))
            do throws(WorkQueue.Refusal) {
                try queue.add([(driver, check)])
            } catch {
                return check.answer(.failure(.unavailable("refused: \(error)")))
            }
            for work in body() { work.answer(.failure(.unavailable("returned"))) }
        }
    }

    @Test(.timeLimit(.minutes(1)))
    func `the check of a deadline does not wait for a slow batch of its driver`() async throws {
        let queue = WorkQueue(worksMax: 1000, slowMax: 1)
        let driver = DriverID("long")
        let outcomes = await withCheckedContinuation { waiting in
            let works = self.works(of: [driver], waiting)
            Task {
                try queue.add(works)
                var group = try #require(await queue.take(worksMax: 12)?.first)
                group.works[0].isLong = true
                let undone = group.works
                // While the check waits, the driver's work turns out to need a long batch and goes back to the queue.
                let behind = await check(driver, in: queue) { queue.giveBack(driver, undone: undone) }
                #expect(behind == .failure(.unavailable("returned")))
                let whileItWaits = await check(driver, in: queue)
                #expect(whileItWaits == .failure(.unavailable("refused: slow")))
                #expect(await queue.take(worksMax: 12)?.count == 1)
                let whileItRuns = await check(driver, in: queue)
                #expect(whileItRuns == .failure(.unavailable("refused: slow")))
                for work in undone { work.answer(.failure(.unavailable("done"))) }
                queue.giveBack(driver, undone: [])
                #expect(queue.count == 0)
            }
        }
        #expect(outcomes.count == 1)
    }

    @Test func `with one writer, slow batches and others take turns`() async throws {
        let queue = WorkQueue(worksMax: 1000, slowMax: 1)
        let drivers = ["long-1", "long-2", "plain"].map { DriverID($0) }
        let outcomes = await withCheckedContinuation { waiting in
            var works = self.works(of: drivers, waiting)
            for index in 0..<2 { works[index].work.isLong = true }
            let added = works
            Task {
                try queue.add(added)
                var order: [String] = []
                while order.count < drivers.count, let groups = await queue.take(worksMax: 12) {
                    for group in groups {
                        order.append(group.driver.rawValue)
                        for work in group.works { work.answer(.failure(.unavailable("done"))) }
                        queue.giveBack(group.driver, undone: [])
                    }
                }
                #expect(order == ["long-1", "plain", "long-2"])
            }
        }
        #expect(outcomes.count == drivers.count)
    }
}
