// Metrics of this process, under the names that Prometheus's own client libraries use. Linux provides the two memory
// sizes and the number of open files in /proc. On other systems, these three metrics are not set.

import CoreMetrics
import MetricInstruments
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

extension MetricFamily {
    static let residentBytes = MetricFamily(
        "process_resident_memory_bytes", "Resident memory.")
    static let virtualBytes = MetricFamily(
        "process_virtual_memory_bytes", "Virtual memory.")
    static let cpuSeconds = MetricFamily(
        "process_cpu_seconds_total", "CPU time, user and system.")
    static let descriptors = MetricFamily(
        "process_open_fds", "Open file descriptors.")
    static let descriptorsMax = MetricFamily(
        "process_max_fds", "Maximum number of open file descriptors.")
    static let startTime = MetricFamily(
        "process_start_time_seconds", "Start time of the process (Unix time).")
    static let build = MetricFamily(
        "dwell_build_info", "1, with the version as a label.")
}

final class ProcessMetrics: Sendable {
    private let resident: any MeterHandler
    private let virtual: any MeterHandler
    private let descriptors: any MeterHandler
    private let descriptorsMax: any MeterHandler
    private let cpu: any FloatingPointCounterHandler
    private let cpuReported = Mutex(0.0)

    /// - Parameter startedAtMilliseconds: when the process started, in milliseconds since 1970.
    init(_ factory: any MetricsFactory, version: String, startedAtMilliseconds: Int64) {
        resident = factory.gauge(.residentBytes)
        virtual = factory.gauge(.virtualBytes)
        descriptors = factory.gauge(.descriptors)
        descriptorsMax = factory.gauge(.descriptorsMax)
        cpu = factory.fractionCounter(.cpuSeconds)
        factory.gauge(.startTime).set(Double(startedAtMilliseconds) / 1000)
        factory.gauge(.build, [("version", version)]).set(Int64(1))
    }

    func sample() {
        if let pages = Self.memoryPages() {
            let pageBytes = Int64(sysconf(Int32(_SC_PAGESIZE)))
            virtual.set(pages.virtual * pageBytes)
            resident.set(pages.resident * pageBytes)
        }
        if let count = Self.openDescriptors() { descriptors.set(Int64(count)) }
        var limit = rlimit()
        #if canImport(Glibc)
            let files = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        #else
            let files = RLIMIT_NOFILE
        #endif
        if getrlimit(files, &limit) == 0 { descriptorsMax.set(Double(limit.rlim_cur)) }
        let used = Self.processorSeconds()
        let growth = cpuReported.withLock { reported in
            defer { reported = max(reported, used) }
            return max(0, used - reported)
        }
        cpu.increment(by: growth)
    }

    private static func processorSeconds() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1_000_000_000
    }

    /// Returns the first two numbers of /proc/self/statm (proc(5)); nil on a system without this file.
    private static func memoryPages() -> (virtual: Int64, resident: Int64)? {
        let descriptor = open("/proc/self/statm", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 128)
        let count = read(descriptor, &bytes, bytes.count)
        let numbers = bytes.prefix(max(0, count)).split(separator: UInt8(ascii: " ")).prefix(2)
            .compactMap { Int64(String(decoding: $0, as: UTF8.self)) }
        return numbers.count == 2 ? (numbers[0], numbers[1]) : nil
    }

    private static func openDescriptors() -> Int? {
        guard let folder = opendir("/proc/self/fd") else { return nil }
        defer { closedir(folder) }
        var count = 0
        while readdir(folder) != nil { count += 1 }
        // Three entries are not counted: ".", ".." and the descriptor of the directory that is being read.
        return max(0, count - 3)
    }
}
