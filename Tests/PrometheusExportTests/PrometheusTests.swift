// Tests that the Prometheus text is valid for any labels, that a histogram's numbers are consistent, and that the
// number of series is bounded. The parser in this file follows the description of the format.

import CoreMetrics
import Dispatch
import MetricInstruments
import Testing

@testable import PrometheusExport

@Suite struct PrometheusTests {
    @Test func countersGaugesAndHistogramsAreOfTheForm() throws {
        let metrics = PrometheusMetrics()
        metrics.counter(
            MetricFamily("requests_total", "Requests with \\ and\na line."), [("route", "/a\"b\\c\nd")]
        ).increment(by: 3)
        metrics.makeMeter(label: "level", dimensions: []).set(-1.5)
        let timer = metrics.timer(
            MetricFamily("duration_seconds", "How long.", bounds: [1_000_000, 2_500_000_000]), [("route", "/")])
        for nanoseconds: Int64 in [1, 1_000_000, 1_000_001, 9_000_000_000] { timer.recordNanoseconds(nanoseconds) }
        let sizes = metrics.recorder(MetricFamily("size", "How many.", bounds: [1, 8]))
        sizes.record(Int64(8))
        metrics.makeFloatingPointCounter(label: "cpu_seconds_total", dimensions: []).increment(by: 0.25)

        let reading = try Exposition(metrics.text())
        #expect(reading.types["requests_total"] == "counter")
        #expect(reading.value("requests_total", "route=/a\"b\\c\nd") == "3")
        #expect(reading.value("level") == "-1.5")
        #expect(reading.value("cpu_seconds_total") == "0.25")
        #expect(reading.value("duration_seconds_bucket", "route=/", "le=0.001") == "2")
        #expect(reading.value("duration_seconds_bucket", "route=/", "le=2.5") == "3")
        #expect(reading.value("duration_seconds_bucket", "route=/", "le=+Inf") == "4")
        #expect(reading.value("duration_seconds_count", "route=/") == "4")
        #expect(reading.value("duration_seconds_sum", "route=/") == "9.002000002")
        #expect(reading.value("size_bucket", "le=8") == "1")
        #expect(reading.value("size_bucket", "le=1") == "0")
    }

    @Test func theSameLabelsAreTheSameSeries() throws {
        let metrics = PrometheusMetrics()
        for _ in 0..<3 { metrics.makeCounter(label: "a_total", dimensions: [("k", "v")]).increment(by: 1) }
        #expect(try Exposition(metrics.text()).value("a_total", "k=v") == "3")
    }

    @Test func aFamilyStopsGrowing() throws {
        let metrics = PrometheusMetrics()
        for number in 0..<(PrometheusMetrics.seriesMax + 100) {
            metrics.makeCounter(label: "a_total", dimensions: [("k", "\(number)")]).increment(by: 1)
        }
        #expect(try Exposition(metrics.text()).samples.count == PrometheusMetrics.seriesMax)
    }

    @Test func aTableMakesACounterWhenItsPlaceIsCounted() throws {
        let metrics = PrometheusMetrics()
        let table = CounterTable(MetricFamily("t_total", "T."), count: 3, factory: metrics) { [("place", "\($0)")] }
        table.count(1)
        table.count(1, by: 4)
        table.count(7)
        table.count(-1)
        let reading = try Exposition(metrics.text())
        #expect(reading.samples.count == 1)
        #expect(reading.value("t_total", "place=1") == "5")
    }

    @Test func nothingIsLostOfWhatManyThreadsCount() throws {
        let metrics = PrometheusMetrics()
        let counter = metrics.makeCounter(label: "c_total", dimensions: [])
        let timer = metrics.makeTimer(label: "t_seconds", dimensions: [])
        DispatchQueue.concurrentPerform(iterations: 16) { _ in
            for _ in 0..<1000 {
                counter.increment(by: 1)
                timer.recordNanoseconds(1_000_000)
            }
        }
        let reading = try Exposition(metrics.text())
        #expect(reading.value("c_total") == "16000")
        #expect(reading.value("t_seconds_count") == "16000")
    }

    @Test func aSampledCounterGrowsByWhatTheOtherCountHasGrown() throws {
        let metrics = PrometheusMetrics()
        let counter = SampledCounter(MetricFamily("s_total", "S."), factory: metrics)
        for count in [5, 5, 9, 3, 10] { counter.sample(count) }
        #expect(try Exposition(metrics.text()).value("s_total") == "10")
    }

    @Test func `a gauge that is destroyed is in no reading, and its family's others are`() throws {
        let metrics = PrometheusMetrics()
        let old = metrics.makeMeter(label: "info", dimensions: [("version", "a")])
        old.set(Int64(1))
        metrics.destroyMeter(old)
        for version in ["b", "c"] { metrics.makeMeter(label: "info", dimensions: [("version", version)]).set(Int64(1)) }
        metrics.makeMeter(label: "info", dimensions: [("version", "b")]).set(Int64(2))
        let reading = try Exposition(metrics.text())
        #expect(reading.value("info", "version=a") == nil)
        #expect(reading.value("info", "version=b") == "2")
        #expect(reading.value("info", "version=c") == "1")
    }
}

/// A strict parser of the exposition format 0.0.4.
struct Exposition {
    struct Malformed: Error {
        var line: String
    }

    struct Sample: Hashable {
        var name: String
        var labels: Set<String>
        var value: String
    }

    var types: [String: String] = [:]
    var samples: [Sample] = []

    init(_ text: String) throws {
        guard text.hasSuffix("\n") else { throw Malformed(line: "no newline at the end") }
        var helped: Set<String> = []
        for line in text.split(separator: "\n") {
            let words = line.split(separator: " ", maxSplits: 3).map(String.init)
            if line.hasPrefix("# HELP ") {
                guard words.count == 4, helped.insert(words[2]).inserted else { throw Malformed(line: String(line)) }
            } else if line.hasPrefix("# TYPE ") {
                guard words.count == 4, ["counter", "gauge", "histogram"].contains(words[3]), types[words[2]] == nil,
                    helped.contains(words[2])
                else { throw Malformed(line: String(line)) }
                types[words[2]] = words[3]
            } else {
                try take(String(line))
            }
        }
        try checkHistograms()
        guard Set(samples.map { [$0.name] + $0.labels.sorted() }).count == samples.count else {
            throw Malformed(line: "a series comes twice")
        }
    }

    func value(_ name: String, _ labels: String...) -> String? {
        samples.first { $0.name == name && $0.labels == Set(labels) }?.value
    }

    static func isName(_ text: String) -> Bool {
        guard let first = text.utf8.first, !(UInt8(ascii: "0")...UInt8(ascii: "9")).contains(first) else {
            return false
        }
        return text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "_") }
    }

    private mutating func take(_ line: String) throws {
        let malformed = Malformed(line: line)
        guard let space = line.lastIndex(of: " ") else { throw malformed }
        let value = String(line[line.index(after: space)...])
        guard Double(value) != nil || value == "+Inf" else { throw malformed }
        var series = line[..<space]
        var labels: Set<String> = []
        if let brace = series.firstIndex(of: "{") {
            guard series.hasSuffix("}") else { throw malformed }
            labels = try Self.labels(series[series.index(after: brace)...].dropLast(), malformed)
            series = series[..<brace]
        }
        guard Self.isName(String(series)) else { throw malformed }
        let family = types.keys.first { series == $0 || types[$0] == "histogram" && series.hasPrefix($0 + "_") }
        guard family != nil else { throw malformed }
        samples.append(Sample(name: String(series), labels: labels, value: value))
    }

    private static func labels(_ text: Substring, _ malformed: Malformed) throws -> Set<String> {
        var labels: Set<String> = []
        var rest = text
        while !rest.isEmpty {
            guard let equals = rest.firstIndex(of: "="), isName(String(rest[..<equals])) else { throw malformed }
            let name = String(rest[..<equals])
            rest = rest[rest.index(after: equals)...]
            guard rest.popFirst() == "\"" else { throw malformed }
            var value = ""
            var isOpen = true
            while isOpen {
                guard let character = rest.popFirst() else { throw malformed }
                switch character {
                case "\"": isOpen = false
                case "\\":
                    guard let escaped = rest.popFirst(), let plain = ["n": "\n", "\\": "\\", "\"": "\""][escaped]
                    else { throw malformed }
                    value += plain
                default: value.append(character)
                }
            }
            labels.insert("\(name)=\(value)")
            if !rest.isEmpty, rest.popFirst() != "," { throw malformed }
        }
        return labels
    }

    /// The values of a histogram's buckets must ascend. The last bucket must be +Inf, and its value must equal the
    /// histogram's count.
    private func checkHistograms() throws {
        for (name, type) in types where type == "histogram" {
            let buckets = samples.filter { $0.name == name + "_bucket" }
            let groups = Dictionary(grouping: buckets) { $0.labels.filter { !$0.hasPrefix("le=") } }
            for (labels, group) in groups {
                let counts = group.compactMap { Int($0.value) }
                guard counts == counts.sorted(), group.last?.labels.contains("le=+Inf") == true,
                    let count = samples.first(where: { $0.name == name + "_count" && $0.labels == labels }),
                    count.value == group.last?.value,
                    samples.contains(where: { $0.name == name + "_sum" && $0.labels == labels })
                else { throw Malformed(line: name) }
            }
        }
    }
}
