// Declares the conformances of SQLiteEventStore to the protocols for metrics and for the operator page. Other files
// implement the functions of these protocols.

import Engine
import Identity
import SharedTables

extension SQLiteEventStore: DatabaseStatus, BackupHistory, EventStatistics, AccountStatistics, InstanceStore,
    SettingsHistoryStore, HistoryStore
{
    /// 0, because only one transaction at a time writes, so audit entries become visible in the order of their ids.
    package var auditSettlesMilliseconds: Int64 { 0 }
}
