// Every metric of the server: name, help text, and the bounds of a histogram. The names follow Prometheus's
// conventions (base units, `_total` for counters). Knows neither writers nor readers.

/// What all series of one name share.
package struct MetricFamily: Hashable, Sendable {
    package var name: String
    package var help: String
    /// Upper bounds of a histogram, ascending: nanoseconds of a timer, plain numbers of a recorder.
    package var bounds: [Int64]

    package init(_ name: String, _ help: String, bounds: [Int64] = []) {
        self.name = name
        self.help = help
        self.bounds = bounds
    }
}

package enum MetricFamilies {
    // MARK: HTTP

    package static let requests = MetricFamily(
        "dwell_http_requests_total", "Answered requests. Route none: refused before a route was found.")
    package static let requestSeconds = MetricFamily(
        "dwell_http_request_duration_seconds", "From the complete head of a request to its answer.",
        bounds: seconds)
    package static let requestBytes = MetricFamily(
        "dwell_http_request_bytes_total", "Bytes of answered requests, heads included.")
    package static let responseBytes = MetricFamily(
        "dwell_http_response_bytes_total", "Bytes of answers, heads included.")
    package static let connections = MetricFamily("dwell_http_connections", "Connections open now.")
    package static let connectionsTotal = MetricFamily(
        "dwell_http_connections_total", "Connections since the start: served, or turned away over a limit.")
    package static let bufferBytes = MetricFamily(
        "dwell_http_buffered_bytes", "Memory that clients make the server hold beyond 8 KiB for each connection.")
    package static let bufferBytesMax = MetricFamily(
        "dwell_http_buffered_bytes_max", "HTTP_BUFFERED_BYTES_MAX: over it requests are answered 503.")
    package static let loops = MetricFamily("dwell_event_loops", "Threads that serve connections.")
    package static let loopDelaySeconds = MetricFamily(
        "dwell_event_loop_delay_seconds", "How long the loop took to come to a new piece of work, at the last look.")

    // MARK: Events

    package static let events = MetricFamily(
        "dwell_events_total", "Events by canonical name (diagnostic: any that is not listed) and outcome.")
    package static let admissions = MetricFamily(
        "dwell_admissions_total", "Decisions of the rate limits by class of event.")
    package static let redisDecisions = MetricFamily(
        "dwell_redis_decisions_total", "Rate limit decisions by who made them; corrected: the process knew better.")
    package static let redisFailures = MetricFamily(
        "dwell_redis_failures_total", "Calls to Redis that ended in a time-out or an error reply.")
    package static let redisConnections = MetricFamily("dwell_redis_connections", "Connections to Redis that serve.")
    package static let redisBreaker = MetricFamily(
        "dwell_redis_breaker_state", "1 for the state that the circuit breaker is in, 0 for the others.")

    // MARK: The store

    package static let commitSize = MetricFamily(
        "dwell_store_commit_requests", "Requests that shared one transaction.",
        bounds: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512])
    package static let commitSeconds = MetricFamily(
        "dwell_store_commit_duration_seconds", "One transaction of the writer, from BEGIN to the synced COMMIT.",
        bounds: seconds)
    package static let commits = MetricFamily("dwell_store_commits_total", "Transactions of the writer.")
    package static let writesWaiting = MetricFamily("dwell_store_writes_waiting", "Requests in line for the writer.")
    package static let databaseBytes = MetricFamily(
        "dwell_database_bytes", "Size of the database file and of its write-ahead log.")
    package static let diskFreeBytes = MetricFamily(
        "dwell_disk_free_bytes", "Free space that the server may use on the disk of the database.")
    package static let lastBackupSeconds = MetricFamily(
        "dwell_last_backup_timestamp_seconds", "When dwell backup last succeeded (Unix time); 0: never.")
    package static let drivers = MetricFamily("dwell_drivers", "Drivers by state.")

    // MARK: Deadlines

    package static let deadlinesStored = MetricFamily(
        "dwell_deadlines_stored_total", "Sessions that the server ended itself at their deadline.")
    package static let deadlineFailures = MetricFamily(
        "dwell_deadline_failures_total", "Rounds in which a due deadline could not be stored.")
    package static let deadlineLateSeconds = MetricFamily(
        "dwell_deadline_late_seconds", "How late the earliest due deadline was when it was taken up.", bounds: seconds)
    package static let deadlineOverdueSeconds = MetricFamily(
        "dwell_deadline_overdue_seconds", "How long the earliest deadline has been due and not stored; 0 is well.")

    package static let deadlinesDue = MetricFamily(
        "dwell_deadlines_due", "Drivers whose deadline has passed and whose expiry is not stored yet; 0 is well.")

    // MARK: What is kept, and what waits

    package static let retentionDeleted = MetricFamily(
        "dwell_retention_deleted_total", "Rows that retention deleted: events, and sessions without any.")
    package static let oldestEventSeconds = MetricFamily(
        "dwell_oldest_event_age_seconds", "How long ago the oldest stored event was received; 0 when there is none.")
    package static let outboxWaiting = MetricFamily(
        "dwell_outbox_waiting",
        "What is still to be delivered: events to analytics, one-time codes, revocations to Apple.")
    package static let outboxAgeSeconds = MetricFamily(
        "dwell_outbox_age_seconds", "How long the oldest undelivered item of the queue has waited; 0: nothing waits.")
    package static let analyticsLost = MetricFamily(
        "dwell_analytics_lost_total", "Events that analytics refused, or that were deleted before they were forwarded.")

    // MARK: The server as a whole

    package static let ready = MetricFamily("dwell_ready", "1 while /readyz answers 200, else 0.")
    package static let readyChecks = MetricFamily(
        "dwell_ready_check", "1 for each check of /readyz that passes, else 0; redis does not make it 503.")
    package static let settingsInfo = MetricFamily(
        "dwell_settings_info", "1, with the version of the settings in force as a label.")
    package static let streams = MetricFamily("dwell_streams", "Open streams of drivers and of operators.")

    // MARK: Settings

    package static let settingsReloadSuccess = MetricFamily(
        "dwell_settings_reload_success", "1 when the last reload of the settings (or the start) went well, else 0.")
    package static let settingsReloadTime = MetricFamily(
        "dwell_settings_reload_timestamp_seconds", "When the settings in force were read (Unix time).")
    package static let settingsNeedRestart = MetricFamily(
        "dwell_settings_restart_needed", "Settings that were changed in the file and need a restart; 0 is well.")
    package static let settingsUnknown = MetricFamily(
        "dwell_settings_unknown", "Names in the environment file that look like mistyped settings; 0 is well.")
    package static let instances = MetricFamily(
        "dwell_instances", "Servers alive on this database, this one too.")
    package static let instancesDiffering = MetricFamily(
        "dwell_instances_differing", "Those of the other servers that have other settings; 0 is well.")

    package static let codeSendsUsed = MetricFamily(
        "dwell_code_sends_used_ratio",
        "Of this hour's one-time codes: in all, for numbers without an account, for the most used prefix. 1 is none left."
    )

    // MARK: Who calls

    package static let tokens = MetricFamily("dwell_access_tokens_total", "Access tokens by what was found.")
    package static let backgroundPings = MetricFamily(
        "dwell_background_pings_total", "Background pings of shipped apps.")
    package static let signIns = MetricFamily(
        "dwell_auth_total", "Actions of signing in and of accounts, by their word in the audit and their outcome.")

    // MARK: The process

    package static let residentBytes = MetricFamily("process_resident_memory_bytes", "Resident memory.")
    package static let virtualBytes = MetricFamily("process_virtual_memory_bytes", "Virtual memory.")
    package static let cpuSeconds = MetricFamily("process_cpu_seconds_total", "Processor time, user and system.")
    package static let descriptors = MetricFamily("process_open_fds", "Open file descriptors.")
    package static let descriptorsMax = MetricFamily("process_max_fds", "How many may be open.")
    package static let startTime = MetricFamily("process_start_time_seconds", "When the process started (Unix time).")
    package static let build = MetricFamily("dwell_build_info", "1, with the version as a label.")

    package static let all: [MetricFamily] = [
        requests, requestSeconds, requestBytes, responseBytes, connections, connectionsTotal, bufferBytes,
        bufferBytesMax, loops, loopDelaySeconds, events, admissions, redisDecisions, redisFailures, redisConnections,
        redisBreaker, commitSize, commitSeconds, commits, writesWaiting, databaseBytes, diskFreeBytes,
        lastBackupSeconds, drivers, deadlinesStored, deadlineFailures, deadlineLateSeconds, deadlineOverdueSeconds,
        deadlinesDue, retentionDeleted, oldestEventSeconds, outboxWaiting, outboxAgeSeconds, analyticsLost,
        codeSendsUsed, ready,
        readyChecks, settingsInfo,
        settingsReloadSuccess, settingsReloadTime, settingsNeedRestart, settingsUnknown, instances,
        instancesDiffering, streams, tokens, signIns, backgroundPings, residentBytes, virtualBytes, cpuSeconds,
        descriptors, descriptorsMax, startTime, build,
    ]

    /// From 250 µs, the time of a read, to 10 s, which nothing should take.
    private static let seconds: [Int64] = [
        250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000, 25_000_000, 50_000_000, 100_000_000,
        250_000_000, 1_000_000_000, 10_000_000_000,
    ]
}
