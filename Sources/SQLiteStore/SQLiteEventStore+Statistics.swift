// The protocols of metrics and the operator page on SQLite. Their functions are implemented beside the tables that they
// read.

import Engine
import Identity
import SharedTables

extension SQLiteEventStore: DatabaseStatus, BackupHistory, EventStatistics, AccountStatistics, InstanceStore,
    SettingsHistoryStore, HistoryStore
{
    /// Only one transaction at a time adds entries.
    package var auditSettlesMilliseconds: Int64 { 0 }
}
