// Only the reply reader of hiredis is used. This project implements commands, sockets, deadlines and reconnecting
// itself.
#include <hiredis/read.h>
#include <hiredis/hiredis.h>
