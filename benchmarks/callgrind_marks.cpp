// Tells callgrind, if this process runs under it, when to count instructions.

#include <valgrind/callgrind.h>

extern "C" {

// Count from here on, from nothing.
void ortdl_count_start() {
  CALLGRIND_START_INSTRUMENTATION;
  CALLGRIND_ZERO_STATS;
}

// Write what was counted since the start as one part of callgrind's output, and count no further.
void ortdl_count_stop() {
  CALLGRIND_DUMP_STATS;
  CALLGRIND_STOP_INSTRUMENTATION;
}

// Whether this process runs under callgrind or another of valgrind's tools.
int ortdl_under_valgrind() { return static_cast<int>(RUNNING_ON_VALGRIND); }

}  // extern "C"
