internal import Synchronization

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// Counters to which many threads add. Processors that write to the same cache line wait for each other, so threads
/// write to different stripes of memory. A read adds up the counts of all stripes.
///
/// Safe to share between threads: the memory holds atomics and is freed only by `deinit`.
final class StripedCounts: @unchecked Sendable {
    private let counts: UnsafeMutablePointer<Atomic<Int64>>
    private let stripeCount: Int
    private static let stripes = 4
    /// The number of counts in 128 bytes. The length of a stripe is a multiple of 128 bytes, so that no two stripes
    /// share a cache line. A cache line has 64 bytes, but processors fetch lines in pairs.
    private static let lineCounts = 16

    /// Creates `count` counts, all 0.
    init(count: Int) {
        stripeCount = (max(1, count) + Self.lineCounts - 1) / Self.lineCounts * Self.lineCounts
        counts = .allocate(capacity: stripeCount * Self.stripes)
        for index in 0..<stripeCount * Self.stripes { (counts + index).initialize(to: Atomic(0)) }
    }

    deinit {
        counts.deinitialize(count: stripeCount * Self.stripes)
        counts.deallocate()
    }

    /// Adds to the count at `index`, which must be below the `count` passed to `init`.
    func add(_ amount: Int64, at index: Int) {
        assert(index < stripeCount)
        // `pthread_self` is an address in the thread's stack. Each stack has at least one page of its own, so the page
        // number of this address differs between threads. The low bits of the page number choose the stripe.
        let stripe = Int(bitPattern: UInt(bitPattern: Int(pthread_self())) >> 12) & (Self.stripes - 1)
        counts[stripe * stripeCount + index].wrappingAdd(amount, ordering: .relaxed)
    }

    func sum(at index: Int) -> Int64 {
        (0..<Self.stripes).reduce(0) { $0 &+ counts[$1 * stripeCount + index].load(ordering: .relaxed) }
    }

    func reset() {
        for index in 0..<stripeCount * Self.stripes { counts[index].store(0, ordering: .relaxed) }
    }
}
