// Only the codec: the reply reader and the command formatter. Sockets, deadlines and reconnecting are ours.
#include <hiredis/read.h>
#include <hiredis/hiredis.h>
