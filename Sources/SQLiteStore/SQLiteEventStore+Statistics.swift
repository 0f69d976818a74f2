// Declares that SQLiteEventStore conforms to the protocols for metrics and for the operator page. The functions of
// these protocols are in other files, beside the code for the tables that they read.

import Engine
import Identity
import SharedTables

extension SQLiteEventStore: DatabaseStatus, BackupHistory, EventStatistics, AccountStatistics, InstanceStore,
    SettingsHistoryStore, HistoryStore
{
    /// 0, because only one transaction at a time writes. Audit entries therefore become visible in the order of their
    /// ids.
    package var auditSettlesMilliseconds: Int64 { 0 }
}
