// The wait of background work while requests wait for the store's writer.

struct WriterWait: Sendable {
    /// The work waits only if more requests than this wait for the writer.
    let requestsMax: Int
    /// The pause before the number of waiting requests is read again.
    let pause: Duration
    /// The maximum number of pauses. With this limit, the work continues even if requests always wait for the writer.
    let pausesMax: Int

    /// Returns when the writer is no longer busy, after `pausesMax` pauses, or when the task is cancelled.
    ///
    /// - Parameter requestsWaiting: returns the number of requests that wait for the writer.
    func wait(_ requestsWaiting: () -> Int) async {
        var pauses = 0
        while requestsWaiting() > requestsMax, pauses < pausesMax, !Task.isCancelled {
            try? await Task.sleep(for: pause)
            pauses += 1
        }
    }
}
