// Only hiredis's reply reader is used. Commands, sockets, deadlines and reconnecting are code of this project.
#include <hiredis/read.h>
#include <hiredis/hiredis.h>
