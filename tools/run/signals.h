// The signals that end a job, as a descriptor.
// Thread: any, before others are started: it blocks them.
#pragma once

#include <towpath/core/result.h>
#include <towpath/sys/fd.h>

namespace towpath::tools {

/// SIGINT, SIGTERM and SIGHUP are reported by it from now on, but for those that this process was
/// started to ignore.
Result<sys::Fd> watch_ending_signals();
/// The next of them, or 0.
int take_signal(const sys::Fd& signals);

}  // namespace towpath::tools
