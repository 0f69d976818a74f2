// Who is waiting for news of which driver's journey. A stream is woken and reads committed rows for itself; nothing is
// handed to it, so a slow one costs no memory and finds the newest state whenever it comes back to read.
//
// News is pulled from the event table too, by one reader for all streams: an expiry, another instance's event and a
// request's own are the same to it, and no request waits for a stream.

package import JourneyModel
package import Logging
import Synchronization

package final class JourneyStreams: Sendable {
    /// Phones of one driver, with an old connection or two that nobody has closed yet.
    package static let streamsPerDriverMax = 4
    /// A tenth of the connections that the server takes by default.
    package static let streamsMax = 1000
    /// A stream of this age gives its place to a new one of its driver: a phone that changed networks leaves
    /// connections behind that look alive for many minutes.
    package static let secureMilliseconds: Int64 = 60_000
    /// Between a commit and the streams that hear of it.
    static let pauseMilliseconds: Int64 = 100

    package enum Refusal: Error, Hashable, Sendable {
        /// The driver has its streams, and none is old enough to go.
        case driverHasEnough(retryAfterSeconds: Int)
        /// The process has.
        case full
        /// The server is going down.
        case closed
    }

    private struct Open: Sendable {
        var driver: DriverID
        var since: Moment
        var bell: AsyncStream<Void>.Continuation
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

    /// Takes a place until the stream is let go of. Read after this call, and nothing is missed.
    package func open(_ driver: DriverID, at now: Moment) throws(Refusal) -> JourneyStream {
        let (wakes, bell) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        let opened = state.withLock { state -> Result<(id: Int, replaced: Open?), Refusal> in
            if state.isClosed { return .failure(.closed) }
            var replaced: Open?
            let ids = state.ofDriver[driver] ?? []
            if ids.count >= Self.streamsPerDriverMax, let oldest = ids.first, let stream = state.streams[oldest] {
                let left = Self.secureMilliseconds - now.milliseconds(since: stream.since)
                guard left <= 0 else {
                    let seconds = (min(left, Self.secureMilliseconds) + 999) / 1000
                    return .failure(.driverHasEnough(retryAfterSeconds: Int(seconds)))
                }
                replaced = state.remove(oldest)
            }
            guard state.streams.count < Self.streamsMax else { return .failure(.full) }
            let id = state.nextID
            state.nextID += 1
            state.streams[id] = Open(driver: driver, since: now, bell: bell)
            state.ofDriver[driver, default: []].append(id)
            return .success((id, replaced))
        }
        let (id, replaced) = try opened.get()
        replaced?.bell.finish()
        return JourneyStream(wakes: wakes, bell: bell) { [self] in _ = state.withLock { $0.remove(id) } }
    }

    /// Ends every stream, and refuses new ones.
    package var isClosed: Bool { state.withLock(\.isClosed) }

    package func close() {
        let streams = state.withLock { state in
            state.isClosed = true
            return Array(state.streams.values)
        }
        for stream in streams { stream.bell.finish() }
    }

    // MARK: News

    /// Wakes streams after commits, until the task is cancelled.
    package func run() async {
        var last: Int64?
        var failures = 0
        while !Task.isCancelled {
            if count == 0 {
                last = nil
            } else {
                do throws(StoreFailure) {
                    last = try await wakeWhoHasNews(after: last)
                    failures = 0
                } catch {
                    // Ten times a second while it lasts: told once.
                    if failures == 0 && error != .cancelled {
                        logger.error("streams cannot be read", metadata: ["failure": "\(error)"])
                    }
                    failures += 1
                }
            }
            do { try await Task.sleep(for: .milliseconds(Self.pauseMilliseconds)) } catch { return }
        }
    }

    /// One look at the event table. Answers where the next one begins.
    package func wakeWhoHasNews(after last: Int64?) async throws(StoreFailure) -> Int64 {
        let news = try await journeys.news(after: last)
        switch news.drivers {
        case .any: wake { _ in true }
        case .these(let drivers):
            let drivers = Set(drivers)
            if !drivers.isEmpty { wake { drivers.contains($0.driver) } }
        }
        return news.newest
    }

    private func wake(where isMeant: (Open) -> Bool) {
        let bells = state.withLock { state in state.streams.values.filter(isMeant).map(\.bell) }
        for bell in bells { bell.yield() }
    }
}

/// A place among the streams, given back when nobody holds it any more.
package final class JourneyStream: Sendable {
    /// One element when there may be news, however often there was since the last; ends when the stream has to. For
    /// one reader.
    package let wakes: AsyncStream<Void>
    private let bell: AsyncStream<Void>.Continuation
    private let giveBack: @Sendable () -> Void

    fileprivate init(
        wakes: AsyncStream<Void>, bell: AsyncStream<Void>.Continuation, giveBack: @escaping @Sendable () -> Void
    ) {
        self.wakes = wakes
        self.bell = bell
        self.giveBack = giveBack
    }

    deinit { giveBack() }

    /// Wakes this stream alone.
    package func wake() {
        bell.yield()
    }
}
