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
        "dwell_http_requests_total", "Requests with a response. Route none: rejected before routing.")
    package static let requestSeconds = MetricFamily(
        "dwell_http_request_duration_seconds", "Time from the complete request head to the response.",
        bounds: seconds)
    package static let requestBytes = MetricFamily(
        "dwell_http_request_bytes_total", "Request bytes received, including heads.")
    package static let responseBytes = MetricFamily(
        "dwell_http_response_bytes_total", "Response bytes sent, including heads.")
    package static let connections = MetricFamily("dwell_http_connections", "Open connections.")
    package static let connectionsTotal = MetricFamily(
        "dwell_http_connections_total", "Connections since startup: served, or rejected by a limit.")
    package static let bufferBytes = MetricFamily(
        "dwell_http_buffered_bytes", "Memory buffered for connections beyond 8 KiB each.")
    package static let bufferBytesMax = MetricFamily(
        "dwell_http_buffered_bytes_max", "HTTP_BUFFERED_BYTES_MAX: above it requests get 503.")
    package static let loops = MetricFamily("dwell_event_loops", "Threads that serve connections.")
    package static let loopDelaySeconds = MetricFamily(
        "dwell_event_loop_delay_seconds", "Delay of an event loop before new work, last measured.")

    // MARK: Events

    package static let events = MetricFamily(
        "dwell_events_total", "Events by canonical name (diagnostic: any other name) and outcome.")
    package static let admissions = MetricFamily(
        "dwell_admissions_total", "Rate limit decisions by class of event.")
    package static let redisDecisions = MetricFamily(
        "dwell_redis_decisions_total", "Rate limit decisions by limiter; corrected: the process overrode Redis.")
    package static let redisFailures = MetricFamily(
        "dwell_redis_failures_total", "Redis calls that timed out or returned an error.")
    package static let redisConnections = MetricFamily("dwell_redis_connections", "Usable connections to Redis.")
    package static let redisBreaker = MetricFamily(
        "dwell_redis_breaker_state", "1 for the circuit breaker's current state, 0 for the others.")

    // MARK: The store

    package static let commitSize = MetricFamily(
        "dwell_store_commit_requests", "Requests per transaction.",
        bounds: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512])
    package static let commitSeconds = MetricFamily(
        "dwell_store_commit_duration_seconds", "Duration of a write transaction, from BEGIN to the synced COMMIT.",
        bounds: seconds)
    package static let commits = MetricFamily("dwell_store_commits_total", "Write transactions.")
    package static let writesWaiting = MetricFamily("dwell_store_writes_waiting", "Requests queued for the writer.")
    package static let databaseBytes = MetricFamily(
        "dwell_database_bytes", "Size of the database file and of its write-ahead log.")
    package static let diskFreeBytes = MetricFamily(
        "dwell_disk_free_bytes", "Free disk space available to the database.")
    package static let lastBackupSeconds = MetricFamily(
        "dwell_last_backup_timestamp_seconds", "Time of the last successful dwell backup (Unix time); 0: never.")
    package static let drivers = MetricFamily("dwell_drivers", "Drivers by state.")

    // MARK: Deadlines

    package static let deadlinesStored = MetricFamily(
        "dwell_deadlines_stored_total", "Sessions ended by the server at their deadline.")
    package static let deadlineFailures = MetricFamily(
        "dwell_deadline_failures_total", "Rounds in which a due deadline could not be stored.")
    package static let deadlineLateSeconds = MetricFamily(
        "dwell_deadline_late_seconds", "Delay of the earliest due deadline when processed.", bounds: seconds)
    package static let deadlineOverdueSeconds = MetricFamily(
        "dwell_deadline_overdue_seconds", "Age of the earliest due deadline not yet stored; 0 is normal.")

    package static let deadlinesDue = MetricFamily(
        "dwell_deadlines_due", "Drivers with a passed deadline whose expiry is not stored yet; 0 is normal.")

    // MARK: What is kept, and what waits

    package static let retentionDeleted = MetricFamily(
        "dwell_retention_deleted_total", "Rows deleted by retention: events, and sessions without events.")
    package static let oldestEventSeconds = MetricFamily(
        "dwell_oldest_event_age_seconds", "Age of the oldest stored event since receipt; 0 if there is none.")
    package static let outboxWaiting = MetricFamily(
        "dwell_outbox_waiting",
        "Pending deliveries: events to analytics, one-time codes, revocations to Apple.")
    package static let outboxAgeSeconds = MetricFamily(
        "dwell_outbox_age_seconds", "Age of the oldest pending delivery in the queue; 0: none pending.")
    package static let analyticsLost = MetricFamily(
        "dwell_analytics_lost_total", "Events rejected by analytics, or deleted before being forwarded.")

    // MARK: The server as a whole

    package static let ready = MetricFamily("dwell_ready", "1 while /readyz returns 200, else 0.")
    package static let readyChecks = MetricFamily(
        "dwell_ready_check", "1 for each check of /readyz that passes, else 0; redis never causes 503.")
    package static let settingsInfo = MetricFamily(
        "dwell_settings_info", "1, with the version of the settings in force as a label.")
    package static let streams = MetricFamily("dwell_streams", "Open event streams of drivers and operators.")

    // MARK: Settings

    package static let settingsReloadSuccess = MetricFamily(
        "dwell_settings_reload_success", "1 if the last settings reload (or startup) succeeded, else 0.")
    package static let settingsReloadTime = MetricFamily(
        "dwell_settings_reload_timestamp_seconds", "Load time of the settings in force (Unix time).")
    package static let settingsNeedRestart = MetricFamily(
        "dwell_settings_restart_needed", "Changed settings that need a restart; 0 is normal.")
    package static let settingsUnknown = MetricFamily(
        "dwell_settings_unknown", "Names in the environment file that look like mistyped settings; 0 is normal.")
    package static let instances = MetricFamily(
        "dwell_instances", "Running servers on this database, including this one.")
    package static let instancesDiffering = MetricFamily(
        "dwell_instances_differing", "Other servers with different settings; 0 is normal.")

    package static let codeSendsUsed = MetricFamily(
        "dwell_code_sends_used_ratio",
        "Used share of the hourly limit on one-time codes: total, numbers without an account, most used prefix."
    )

    // MARK: Who calls

    package static let tokens = MetricFamily("dwell_access_tokens_total", "Access tokens by verification result.")
    package static let backgroundPings = MetricFamily(
        "dwell_background_pings_total", "Background pings of shipped apps.")
    package static let signIns = MetricFamily(
        "dwell_auth_total", "Sign-in and account actions, by audit action and outcome.")

    // MARK: Purchases

    package static let purchases = MetricFamily(
        "dwell_purchases_total", "Purchases sent by apps, by outcome.")
    package static let storeNotifications = MetricFamily(
        "dwell_store_notifications_total", "App Store Server Notifications, by type and outcome.")

    // MARK: The process

    package static let residentBytes = MetricFamily("process_resident_memory_bytes", "Resident memory.")
    package static let virtualBytes = MetricFamily("process_virtual_memory_bytes", "Virtual memory.")
    package static let cpuSeconds = MetricFamily("process_cpu_seconds_total", "CPU time, user and system.")
    package static let descriptors = MetricFamily("process_open_fds", "Open file descriptors.")
    package static let descriptorsMax = MetricFamily("process_max_fds", "Maximum number of open file descriptors.")
    package static let startTime = MetricFamily("process_start_time_seconds", "Start time of the process (Unix time).")
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
        instancesDiffering, streams, tokens, signIns, backgroundPings, purchases, storeNotifications,
        residentBytes, virtualBytes, cpuSeconds, descriptors, descriptorsMax, startTime, build,
    ]

    /// From 250 µs, the time of a read, to 10 s, which nothing should take.
    private static let seconds: [Int64] = [
        250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000, 25_000_000, 50_000_000, 100_000_000,
        250_000_000, 1_000_000_000, 10_000_000_000,
    ]
}
