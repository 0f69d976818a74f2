// The progress of a run as text: a bar for a terminal, and single lines for a log.

package enum ProgressDisplay {
    /// Returns one line without a line feed, at most 79 columns: `[#####.....]  50 %  120 of 240 events`.
    package static func bar(_ progress: DeliveryProgress, unit: String = "events") -> String {
        let width = 40
        let filled = progress.total > 0 ? min(progress.delivered * width / progress.total, width) : width
        let bar = String(repeating: "#", count: filled) + String(repeating: ".", count: width - filled)
        let percent = String(percent(progress))
        return "[\(bar)] \(String(repeating: " ", count: 3 - percent.count))\(percent) %  \(amount(progress, unit))"
    }

    package static func line(_ progress: DeliveryProgress, unit: String = "events") -> String {
        "\(percent(progress)) %: \(amount(progress, unit))"
    }

    /// Returns the progress in percent, 0 to 100.
    package static func percent(_ progress: DeliveryProgress) -> Int {
        progress.total > 0 ? min(max(progress.delivered * 100 / progress.total, 0), 100) : 100
    }

    private static func amount(_ progress: DeliveryProgress, _ unit: String) -> String {
        "\(progress.delivered) of \(progress.total) \(unit)"
    }
}
