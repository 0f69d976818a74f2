// The end of a driver's chain, the linked list of the driver's events (EventChain.swift). The driver's row stores the
// end. An event that comes after all others is therefore appended without reading another event's row.

/// The climb of the driver's last event. A climb begins with the event itself. Each step leads to the nearest earlier
/// event, in the order (corrected_at_ms, id), with a higher level (`EventChain.level`).
///
/// The column `driver.chain` is NULL if the driver has no events. Otherwise it contains the following numbers, each in
/// zigzag and LEB128 encoding:
///
///     chain = corrected_at_ms of the last event, its id, then for each further event of the climb
///             its id minus the id before it
struct ChainEnd: Equatable {
    /// `corrected_at_ms` of the last event. 0 without events.
    private(set) var time: Int64 = 0
    /// The ids of the climb's events, the earliest event first. The last id belongs to the driver's last event.
    private(set) var climb: [Int64] = []

    init() {}

    init(time: Int64, climb: [Int64]) {
        (self.time, self.climb) = (time, climb)
    }

    /// The id of the driver's last event; nil without events.
    var last: Int64? { climb.last }

    /// Returns whether a new event with this `corrected_at_ms` comes after all others. If the last event has the same
    /// time, the new event comes after it, because the new event has a higher id.
    func isBefore(_ time: Int64) -> Bool { climb.isEmpty || time >= self.time }

    /// Appends an event that comes after all others. Returns the ids for the event's columns `previous` and `jump`.
    mutating func append(_ id: Int64, at time: Int64) -> (previous: Int64?, jump: Int64?) {
        let previous = climb.last
        let level = EventChain.level(of: id)
        while let last = climb.last, EventChain.level(of: last) <= level { climb.removeLast() }
        let jump = climb.last
        climb.append(id)
        self.time = time
        return (previous, jump)
    }

    /// Adds an event that is not the last. It joins the climb only if its level is higher than the level of every later
    /// event. If it joins, the climb's earlier events with the same or a lower level leave the climb.
    ///
    /// - Parameter isLater: takes the id of an event in the climb, and returns whether this event comes after the new
    ///   event.
    mutating func insert(_ id: Int64, isLater: (Int64) -> Bool) {
        let level = EventChain.level(of: id)
        let later = climb.firstIndex(where: isLater) ?? climb.endIndex
        if later < climb.endIndex, EventChain.level(of: climb[later]) >= level { return }
        climb = climb[..<later].filter { EventChain.level(of: $0) > level } + [id] + climb[later...]
    }

    // MARK: The column

    /// - Throws: if the bytes are not in the form of the column.
    init(bytes: [UInt8]) throws(SQLiteError) {
        guard !bytes.isEmpty else { return }
        var position = 0
        var numbers: [Int64] = []
        while position < bytes.count {
            guard let number = LEB128.number(in: bytes, at: &position) else { throw .unreadable("chain") }
            numbers.append(LEB128.signed(number))
        }
        guard numbers.count > 1 else { throw .unreadable("chain") }
        time = numbers[0]
        var id: Int64 = 0
        for step in numbers.dropFirst() {
            id &+= step
            climb.append(id)
        }
        climb.reverse()
    }

    var bytes: [UInt8] {
        var bytes: [UInt8] = []
        write(to: &bytes)
        return bytes
    }

    /// Appends the bytes of the column.
    func write(to bytes: inout [UInt8]) {
        guard !climb.isEmpty else { return }
        LEB128.append(zigzag: time, to: &bytes)
        var before: Int64 = 0
        for id in climb.reversed() {
            LEB128.append(zigzag: id &- before, to: &bytes)
            before = id
        }
    }
}
