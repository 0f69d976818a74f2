// Metrics of connections and of the memory that their buffers use. The values are updated only when the metrics are
// read.

package import CoreMetrics
internal import MetricInstruments

extension MetricFamily {
    static let connections = MetricFamily(
        "dwell_http_connections", "Open connections.")
    static let connectionsTotal = MetricFamily(
        "dwell_http_connections_total", "Connections since startup: served, or rejected by a limit.")
    static let responsesDropped = MetricFamily(
        "dwell_http_unread_responses_dropped_total",
        "Connections closed because their clients did not read and the memory of the responses was needed.")
    static let bufferBytes = MetricFamily(
        "dwell_http_buffered_bytes", "Memory buffered for connections beyond 8 KiB each.")
    static let bufferBytesMax = MetricFamily(
        "dwell_http_buffered_bytes_max", "HTTP_BUFFERED_BYTES_MAX: above it requests get 503.")
}

extension Server {
    /// Returns a function that copies `counts` to metrics of `factory`.
    package func sampler(_ factory: any MetricsFactory) -> @Sendable () -> Void {
        let connections = factory.gauge(.connections)
        let served = SampledCounter(.connectionsTotal, [("outcome", "served")], factory: factory)
        let rejected = SampledCounter(.connectionsTotal, [("outcome", "turned_away")], factory: factory)
        let dropped = SampledCounter(.responsesDropped, factory: factory)
        let bytes = factory.gauge(.bufferBytes)
        let bytesMax = factory.gauge(.bufferBytesMax)
        return {
            let counts = self.counts
            connections.set(Int64(counts.connectionsOpen))
            served.sample(counts.connectionsServed)
            rejected.sample(counts.connectionsRejected)
            dropped.sample(counts.responsesDropped)
            bytes.set(Int64(counts.bytesHeld))
            bytesMax.set(Int64(counts.bytesHeldMax))
        }
    }
}
