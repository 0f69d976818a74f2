// Lets callers that need the same slow work share one run of the work. Each caller waits only for a limited time. For
// example, while a database is down, a scrape of /metrics returns earlier values instead of hanging.

package actor SharedRun {
    private let patience: Duration
    private var isRunning = false
    /// Whether the run has taken longer than `patience`.
    private var isSlow = false
    private var waiting: [CheckedContinuation<Void, Never>] = []

    /// - Parameter patience: how long callers wait at most, measured from the start of the run.
    package init(patience: Duration) {
        self.patience = patience
    }

    /// Starts a run of the work. If a run is in progress, waits for that run instead of starting another. Returns when
    /// the run ends, or earlier if the run has lasted `patience`. In that case, the run continues without this caller.
    package func join(_ work: @escaping @Sendable () async -> Void) async {
        if !isRunning { begin(work) }
        if !isSlow { await withCheckedContinuation { waiting.append($0) } }
    }

    private func begin(_ work: @escaping @Sendable () async -> Void) {
        isRunning = true
        let timer = Task { [patience] in
            try? await Task.sleep(for: patience)
            // This task is cancelled when the run has ended.
            if !Task.isCancelled { noteSlow() }
        }
        Task {
            await work()
            timer.cancel()
            (isRunning, isSlow) = (false, false)
            wakeAll()
        }
    }

    private func noteSlow() {
        isSlow = true
        wakeAll()
    }

    private func wakeAll() {
        for continuation in waiting { continuation.resume() }
        waiting = []
    }
}
