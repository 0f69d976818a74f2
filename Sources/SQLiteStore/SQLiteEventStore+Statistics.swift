// The ports of metrics and the operator page on SQLite. The functions are beside the tables that they read.

import Engine
import Identity
import SharedTables

extension SQLiteEventStore: DatabaseStatus, BackupHistory, EventStatistics, AccountStatistics, InstanceStore,
    SettingsHistoryStore, HistoryStore
{}
