// Runs slow work once for all callers that need its effect, and limits how long each caller waits. For example, while a
// database is down or slow, a scrape of /metrics returns earlier values instead of hanging.

package actor SharedRun {
    private let patience: Duration
    private var isRunning = false
    /// Whether the run has taken longer than `patience`.
    private var isSlow = false
    private var waiting: [CheckedContinuation<Void, Never>] = []

    /// - Parameter patience: the longest time that callers wait, measured from the start of the run.
    package init(patience: Duration) {
        self.patience = patience
    }

    /// Runs the work, or joins the run in progress. Returns when the run has ended, or when the run has taken longer
    /// than `patience`. In the second case, the run continues.
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
