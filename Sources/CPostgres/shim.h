// libpq, PostgreSQL's own client library. Swift does not import C macros that are character constants. For each such
// macro that the module Postgres uses, this header defines an enum constant.
#include <libpq-fe.h>

enum {
    DWELL_PG_SEVERITY = PG_DIAG_SEVERITY_NONLOCALIZED,
    DWELL_PG_SQLSTATE = PG_DIAG_SQLSTATE,
    DWELL_PG_MESSAGE = PG_DIAG_MESSAGE_PRIMARY,
    DWELL_PG_CONSTRAINT = PG_DIAG_CONSTRAINT_NAME,
    DWELL_PG_SOURCE_FUNCTION = PG_DIAG_SOURCE_FUNCTION,
};
