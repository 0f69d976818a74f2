// The response of /ops/history. Each time step has the events by outcome and by source, the responses by status, and
// quantiles of the response durations. The quantiles are computed from the stored histogram.

import Engine
import JourneyModel

enum HistoryResponses {
    static func history(_ steps: [HistoryStep], _ range: HistoryRange, at now: Moment) -> [UInt8] {
        var writer = JSONWriter(reservingBytes: 256 + 256 * steps.count)
        writer.beginObject()
        writer.name("range")
        writer.string(range.rawValue)
        writer.name("step_seconds")
        writer.integer(range.stepSeconds)
        writer.name("from")
        writer.string(RFC3339.text(of: range.start(at: now)))
        writer.name("as_of")
        writer.string(RFC3339.text(of: now))
        writer.name("steps")
        writer.beginArray()
        for step in steps {
            writer.beginObject()
            writer.name("begins_at")
            writer.string(RFC3339.text(of: step.beginsAt))
            writer.counts("events", of: "event.", in: step)
            writer.counts("sources", of: "source.", in: step)
            writer.counts("statuses", of: "status.", in: step)
            let durations = Durations(step)
            for (name, part) in [("p50_us", 0.5), ("p90_us", 0.9), ("p99_us", 0.99)] {
                guard let microseconds = durations.quantile(part) else { continue }
                writer.name(name)
                writer.integer(microseconds)
            }
            writer.endObject()
        }
        writer.endArray()
        writer.endObject()
        return writer.bytes
    }
}

/// The histogram of durations of one time step.
struct Durations {
    /// The buckets, sorted by upper bound. The last bucket counts the durations above all bounds. Its `bound` repeats
    /// the highest bound.
    private let buckets: [(bound: Int64, count: Int)]

    init(_ step: HistoryStep) {
        let known = step.counts.compactMap { series, count -> (bound: Int64, count: Int)? in
            guard series.hasPrefix("duration."), let bound = Int64(series.dropFirst("duration.".count)) else {
                return nil
            }
            return (bound, count)
        }.sorted { $0.bound < $1.bound }
        buckets = known + [(bound: known.last?.bound ?? 0, count: step.counts["duration.inf"] ?? 0)]
    }

    /// Returns a quantile in microseconds, interpolated within its bucket. Returns nil if no durations were counted.
    func quantile(_ part: Double) -> Int64? {
        let count = buckets.reduce(0) { $0 + $1.count }
        guard count > 0 else { return nil }
        let wanted = Double(count) * part
        var (below, lower) = (0.0, Int64(0))
        for (bound, inBucket) in buckets {
            if inBucket > 0, below + Double(inBucket) >= wanted {
                return lower + Int64(Double(bound - lower) * (wanted - below) / Double(inBucket))
            }
            below += Double(inBucket)
            lower = bound
        }
        return buckets.last?.bound
    }
}

extension JSONWriter {
    fileprivate mutating func counts(_ name: String, of prefix: String, in step: HistoryStep) {
        self.name(name)
        beginObject()
        for (series, count) in step.counts.sorted(by: { $0.key < $1.key }) where series.hasPrefix(prefix) {
            self.name(String(series.dropFirst(prefix.count)))
            integer(count)
        }
        endObject()
    }
}
