// The open streams. Each stream reports the changes of one driver. This type wakes a stream when there are changes, and
// the stream then reads committed rows itself.
//
// No data is queued for a stream. A slow stream therefore costs no memory, and its next read returns the newest state.
//
// One task polls the store for all streams, so that requests that store events do not wait for streams. The poll also
// finds expiries, and events that other instances stored.

package import JourneyModel
package import Logging
package import MetricInstruments
import Synchronization

extension MetricFamily {
    package static let streams = MetricFamily(
        "dwell_streams", "Open event streams of drivers and operators.")
}

package final class JourneyStreams: Sendable {
    /// The maximum number of streams of one driver: enough for the driver's phones and one or two old connections that
    /// are not closed yet.
    package static let streamsPerDriverMax = 4
    /// The maximum number of streams of the process: a tenth of the connections that the server accepts by default.
    package static let streamsMax = 1000
    /// The age from which a stream may be replaced by a new stream of the same driver. When a phone changes networks,
    /// it leaves old connections behind. These connections look alive for many minutes.
    package static let secureMilliseconds: Int64 = 60_000
    /// The pause between two polls of the store. A poll may miss an event that is committed during the poll; the next
    /// poll then finds it. A stream is therefore woken at most two polls and one pause after the commit.
    static let pauseMilliseconds: Int64 = 100

    package enum Refusal: Error, Hashable, Sendable {
        /// The driver has the maximum number of streams, and no stream is old enough to be replaced.
        case driverHasEnough(retryAfterSeconds: Int)
        /// The process has the maximum number of streams.
        case full
        /// The server is shutting down.
        case closed
    }

    private struct Open: Sendable {
        var driver: DriverID
        var since: Moment
        /// Whether a refold of the driver may be incomplete. If so, the stream is woken once more after the refold.
        var awaitsRefold = true
        var continuation: AsyncStream<Void>.Continuation
    }

    private struct State: Sendable {
        var streams: [Int: Open] = [:]
        var ofDriver: [DriverID: [Int]] = [:]
        var nextID = 0
        var isClosed = false

        mutating func remove(_ id: Int) -> Open? {
            guard let stream = streams.removeValue(forKey: id) else { return nil }
            ofDriver[stream.driver]?.removeAll { $0 == id }
            if ofDriver[stream.driver]?.isEmpty == true { ofDriver[stream.driver] = nil }
            return stream
        }
    }

    private let state = Mutex(State())
    private let journeys: any JourneyReader
    private let logger: Logger

    package init(journeys: any JourneyReader, logger: Logger) {
        self.journeys = journeys
        self.logger = logger
    }

    package var count: Int { state.withLock { $0.streams.count } }

    /// Opens a stream of the driver. The stream counts towards the limits until the returned object is released, or a
    /// newer stream replaces it. The caller must read the journey after this call; otherwise it may miss a change.
    package func open(_ driver: DriverID, at now: Moment) throws(Refusal) -> JourneyStream {
        let (wakes, continuation) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        let opened = state.withLock { state -> Result<(id: Int, replaced: Open?), Refusal> in
            if state.isClosed { return .failure(.closed) }
            var replaced: Open?
            let ids = state.ofDriver[driver] ?? []
            if ids.count >= Self.streamsPerDriverMax, let oldest = ids.first, let stream = state.streams[oldest] {
                let left = Self.secureMilliseconds - now.milliseconds(since: stream.since)
                // `since` can be a little later than `now`, because requests are handled concurrently. If it is more
                // than a minute later, the clock was set back, and the stream can be replaced.
                guard left <= 0 || left > 2 * Self.secureMilliseconds else {
                    let seconds = (min(left, Self.secureMilliseconds) + 999) / 1000
                    return .failure(.driverHasEnough(retryAfterSeconds: Int(seconds)))
                }
                replaced = state.remove(oldest)
            }
            guard state.streams.count < Self.streamsMax else { return .failure(.full) }
            let id = state.nextID
            state.nextID += 1
            state.streams[id] = Open(driver: driver, since: now, continuation: continuation)
            state.ofDriver[driver, default: []].append(id)
            return .success((id, replaced))
        }
        let (id, replaced) = try opened.get()
        replaced?.continuation.finish()
        return JourneyStream(wakes: wakes, continuation: continuation) { [self] in
            _ = state.withLock { $0.remove(id) }
        }
    }

    /// Whether all streams have been ended and new streams are refused.
    package var isClosed: Bool { state.withLock(\.isClosed) }

    package func close() {
        let streams = state.withLock { state in
            state.isClosed = true
            return Array(state.streams.values)
        }
        for stream in streams { stream.continuation.finish() }
    }

    // MARK: Changes

    /// Wakes streams after commits, until the task is cancelled.
    package func run() async {
        var last: Int64?
        var lastCorrected: Int64?
        var failures = 0
        while !Task.isCancelled {
            if count == 0 {
                (last, lastCorrected) = (nil, nil)
            } else {
                do throws(StoreFailure) {
                    last = try await wakeChanged(after: last)
                    try await wakeRefolded()
                    lastCorrected = try await wakeCorrected(after: lastCorrected)
                    failures = 0
                } catch {
                    // The store is polled ten times a second, so only the first of several consecutive failures is
                    // logged.
                    if failures == 0 && error != .cancelled {
                        logger.error("reading streams failed", metadata: ["failure": "\(error)"])
                    }
                    failures += 1
                }
            }
            do { try await Task.sleep(for: .milliseconds(Self.pauseMilliseconds)) } catch { return }
        }
    }

    /// Polls the store once, and wakes the streams of drivers with new events. Returns the mark for the next poll
    /// (`CommittedChanges.newest`).
    package func wakeChanged(after last: Int64?) async throws(StoreFailure) -> Int64 {
        // `open` lacks drivers whose first stream opens after this line. This does no harm, because a new stream first
        // reads all committed changes.
        let open = state.withLock { Set($0.ofDriver.keys) }
        let changes = try await journeys.committedChanges(after: last, among: open)
        var drivers = state.withLock { Set($0.ofDriver.keys) }
        if case .these(let changed) = changes.drivers { drivers.formIntersection(changed) }
        guard !drivers.isEmpty else { return changes.newest }
        // A late event may cause a refold that is not complete yet. `wakeRefolded` wakes the driver's streams again
        // when this refold is complete.
        let refolding = try await journeys.driversAwaitingRefold(among: drivers)
        let continuations = state.withLock { state in
            state.streams.filter { drivers.contains($0.value.driver) }.map { id, stream in
                if refolding.contains(stream.driver) { state.streams[id]?.awaitsRefold = true }
                return stream.continuation
            }
        }
        for continuation in continuations { continuation.yield() }
        return changes.newest
    }

    /// Wakes the streams of drivers whose refold has ended since the last call, in any process. No event is stored when
    /// a refold ends, so `wakeChanged` cannot notice the end.
    ///
    /// Each call checks the streams whose `awaitsRefold` is true: new streams, and streams for which `wakeChanged`
    /// found an incomplete refold. If the driver of such a stream awaits no refold, the call wakes the stream and sets
    /// `awaitsRefold` to false. A new stream is therefore woken once even if there was no refold.
    package func wakeRefolded() async throws(StoreFailure) {
        let drivers = state.withLock { Set($0.streams.values.lazy.filter(\.awaitsRefold).map(\.driver)) }
        guard !drivers.isEmpty else { return }
        let refolded = drivers.subtracting(try await journeys.driversAwaitingRefold(among: drivers))
        let continuations = state.withLock { state in
            state.streams.filter { $0.value.awaitsRefold && refolded.contains($0.value.driver) }.map { id, stream in
                state.streams[id]?.awaitsRefold = false
                return stream.continuation
            }
        }
        for continuation in continuations { continuation.yield() }
    }

    /// Wakes the streams of drivers whose journeys were changed by a correction of settings. A correction stores no
    /// event, so `wakeChanged` cannot notice it. Returns the row number after which the next call continues.
    package func wakeCorrected(after last: Int64?) async throws(StoreFailure) -> Int64 {
        let corrected = try await journeys.correctedJourneys(after: last)
        switch corrected.drivers {
        case .any: wake { _ in true }
        case .these(let drivers):
            let drivers = Set(drivers)
            if !drivers.isEmpty { wake { drivers.contains($0.driver) } }
        }
        return corrected.newest
    }

    /// Wakes all streams of the driver. The purchase routes call this method when the driver's entitlements may have
    /// changed. The streams then read the entitlements again.
    package func wake(_ driver: DriverID) {
        wake { $0.driver == driver }
    }

    private func wake(where isMeant: (Open) -> Bool) {
        let continuations = state.withLock { state in state.streams.values.filter(isMeant).map(\.continuation) }
        for continuation in continuations { continuation.yield() }
    }
}

/// One open stream. It counts towards the limits until its deinit, or until a newer stream replaces it.
package final class JourneyStream: Sendable {
    /// Yields when there may be changes; one element may stand for several changes. Finishes when the stream must end.
    /// Only one reader may iterate over the elements.
    package let wakes: AsyncStream<Void>
    private let continuation: AsyncStream<Void>.Continuation
    private let release: @Sendable () -> Void

    fileprivate init(
        wakes: AsyncStream<Void>, continuation: AsyncStream<Void>.Continuation, release: @escaping @Sendable () -> Void
    ) {
        self.wakes = wakes
        self.continuation = continuation
        self.release = release
    }

    deinit { release() }

    /// Wakes only this stream.
    package func wake() {
        continuation.yield()
    }
}
