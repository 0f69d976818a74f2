// Checks that requests with invented paths, methods and statuses create no new time series.

import CoreMetrics
import PrometheusExport
import Testing

@testable import HTTP1
@testable import HTTPServer

@Suite struct RequestMetricsTests {
    @Test func tenThousandPathsAndMethodsAreAFewSeries() {
        let prometheus = PrometheusMetrics()
        let routes = [
            Route(.get, "/a") { _ in Response(status: .ok) }, Route(.get, "/b/{name}") { _ in Response(status: .ok) },
        ]
        let router = Router(routes)
        let metrics = RequestMetrics(routes, prometheus)
        for number in 0..<10_000 {
            for path in ["/b/\(number)", "/nothing/\(number)"] {
                var index: Int?
                if case .route(let route, _) = router.match(.get, path) { index = route.index }
                metrics.answered(
                    index, number % 3 == 0 ? Method("M\(number)") : .get, Status(index == nil ? 404 : 200),
                    nanoseconds: 1000, bytesIn: 10, bytesOut: 20)
            }
        }
        let text = prometheus.text()
        let requests = text.split(separator: "\n").filter { $0.hasPrefix("dwell_http_requests_total{") }.sorted()
        #expect(
            requests == [
                #"dwell_http_requests_total{route="/b/{name}",method="GET",status="200"} 6666"#,
                #"dwell_http_requests_total{route="/b/{name}",method="other",status="200"} 3334"#,
                #"dwell_http_requests_total{route="none",method="GET",status="404"} 6666"#,
                #"dwell_http_requests_total{route="none",method="other",status="404"} 3334"#,
            ])
        #expect(text.contains("dwell_http_response_bytes_total 400000\n"))
        #expect(text.contains(#"dwell_http_request_duration_seconds_count{route="/b/{name}"} 10000"#))
    }

    @Test(arguments: [99, 100, 299, 599, 600, Int.max, Int.min])
    func anOddStatusIsOther(_ code: Int) {
        let prometheus = PrometheusMetrics()
        RequestMetrics([], prometheus).answered(
            nil, nil, Status(code), nanoseconds: .max, bytesIn: 0, bytesOut: 0)
        #expect(prometheus.text().contains(#"{route="none",method="other",status="other"} 1"#))
    }
}
