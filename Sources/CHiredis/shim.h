// Only hiredis's reply reader is used. Commands, sockets, deadlines and reconnecting are implemented in this project.
#include <hiredis/read.h>
#include <hiredis/hiredis.h>
