// A fuzz target is a function that takes arbitrary bytes. It throws if a result contradicts the RFC, a doc comment, or
// a second, simpler implementation.
//
// libFuzzer calls the target in Fuzz/Entry. `swift test` calls it with every file of its corpus.

import Dispatch
internal import Synchronization

package struct FuzzTarget: Sendable {
    /// The name of the target and of its folder in Fuzz/Corpus.
    package let name: String
    /// Runs the target on an input, and blocks the thread while the target waits for asynchronous code. Only libFuzzer
    /// calls this closure, because a thread of Swift's pool must not be blocked.
    package let run: @Sendable ([UInt8]) throws(Finding) -> Void
    /// Runs the target on an input without blocking the thread. Tasks must use this closure.
    package let replay: @Sendable ([UInt8]) async throws(Finding) -> Void

    init(_ name: String, _ run: @escaping @Sendable ([UInt8]) throws(Finding) -> Void) {
        self.name = name
        self.run = run
        replay = { input throws(Finding) in try run(input) }
    }

    init(_ name: String, asynchronous run: @escaping @Sendable ([UInt8]) async throws(Finding) -> Void) {
        self.name = name
        replay = run
        self.run = { input throws(Finding) in
            let outcome = Outcome()
            let done = DispatchSemaphore(value: 0)
            Task {
                do throws(Finding) {
                    try await run(input)
                } catch {
                    outcome.finding.withLock { $0 = error }
                }
                done.signal()
            }
            done.wait()
            if let finding = outcome.finding.withLock({ $0 }) { throw finding }
        }
    }

    private final class Outcome: Sendable {
        let finding = Mutex<Finding?>(nil)
    }

    package static let all: [FuzzTarget] = [
        FuzzTarget("RequestParser", fuzzRequestParser),
        FuzzTarget("Split", fuzzSplit),
        FuzzTarget("ChunkedContent", fuzzChunkedContent),
        FuzzTarget("RequestTarget", fuzzRequestTarget),
        FuzzTarget("GzipBody", fuzzGzipBody),
        FuzzTarget("TrustedProxies", fuzzTrustedProxies),
        FuzzTarget("JSONText", fuzzJSONText),
        FuzzTarget("EventBody", fuzzEventBody),
        FuzzTarget("RFC3339", fuzzRFC3339),
        FuzzTarget("StorePayload", fuzzStorePayload),
        FuzzTarget("StoreToken", fuzzStoreToken),
        FuzzTarget("StoreChain", asynchronous: fuzzStoreChain),
        FuzzTarget("StoreCertificateStatus", asynchronous: fuzzStoreCertificateStatus),
    ]
}

/// A promise that the code under test breaks for an input.
package struct Finding: Error, CustomStringConvertible {
    package let description: String

    init(_ description: String) {
        self.description = description
    }
}

func require(_ holds: Bool, _ promise: @autoclosure () -> String) throws(Finding) {
    if !holds { throw Finding(promise()) }
}
