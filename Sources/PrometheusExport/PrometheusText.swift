// The Prometheus text format: https://prometheus.io/docs/instrumenting/exposition_formats/, version 0.0.4.

enum PrometheusText {
    static let mediaType = "text/plain; version=0.0.4; charset=utf-8"

    /// Returns the families as text, sorted by name. Two readings then differ only in their numbers.
    static func render(_ families: [String: PrometheusMetrics.Family]) -> String {
        var text = ""
        for (name, family) in families.sorted(by: { $0.key < $1.key }) {
            guard let first = family.series.first else { continue }
            text += "# HELP \(name) \(escapedHelp(family.help))\n# TYPE \(name) \(type(of: first.series))\n"
            for (labels, series) in family.series.sorted(by: { $0.labels < $1.labels }) {
                append(series, name, labels, to: &text)
            }
        }
        return text
    }

    /// Returns `name="value",name="value"` in the given order; empty without dimensions.
    static func labels(_ dimensions: [(String, String)]) -> String {
        dimensions.map { "\($0)=\"\(escapedValue($1))\"" }.joined(separator: ",")
    }

    private static func type(of series: PrometheusMetrics.Series) -> String {
        switch series {
        case .counter, .fraction: "counter"
        case .gauge: "gauge"
        case .seconds, .sizes: "histogram"
        }
    }

    private static func append(
        _ series: PrometheusMetrics.Series, _ name: String, _ labels: String, to text: inout String
    ) {
        let braces = labels.isEmpty ? "" : "{\(labels)}"
        switch series {
        case .counter(let counter): text += "\(name)\(braces) \(counter.value)\n"
        case .gauge(let gauge), .fraction(let gauge): text += "\(name)\(braces) \(number(gauge.value))\n"
        case .seconds(let histogram): append(histogram, perUnit: 1_000_000_000, name, labels, to: &text)
        case .sizes(let histogram): append(histogram, perUnit: 1, name, labels, to: &text)
        }
    }

    /// Appends a histogram. `_count` is the count that was written for the last bucket. It therefore always matches the
    /// buckets, even if a value is recorded at the same time.
    private static func append(
        _ histogram: HistogramSeries, perUnit: Double, _ name: String, _ labels: String, to text: inout String
    ) {
        let prefix = labels.isEmpty ? "" : labels + ","
        let braces = labels.isEmpty ? "" : "{\(labels)}"
        var count: Int64 = 0
        for (index, inBucket) in histogram.counts.enumerated() {
            count += inBucket
            let bound =
                index < histogram.bounds.count ? number(Double(histogram.bounds[index]) / perUnit) : "+Inf"
            text += "\(name)_bucket{\(prefix)le=\"\(bound)\"} \(count)\n"
        }
        text += "\(name)_sum\(braces) \(number(Double(histogram.sum) / perUnit))\n"
        text += "\(name)_count\(braces) \(count)\n"
    }

    /// Returns the number as text. Whole numbers have no fraction: `le="1"`, not `le="1.0"`.
    static func number(_ value: Double) -> String {
        if value.isNaN { return "NaN" }
        if value.isInfinite { return value < 0 ? "-Inf" : "+Inf" }
        if let whole = Int64(exactly: value) { return String(whole) }
        return "\(value)"
    }

    private static func escapedValue(_ text: String) -> String {
        var escaped = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\\": escaped += "\\\\"
            case "\"": escaped += "\\\""
            case "\n": escaped += "\\n"
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }

    private static func escapedHelp(_ text: String) -> String {
        escapedValue(text).split(separator: "\\\"", omittingEmptySubsequences: false).joined(separator: "\"")
    }
}

extension PrometheusMetrics {
    /// The media type of `text()`.
    package static var mediaType: String { PrometheusText.mediaType }
}
