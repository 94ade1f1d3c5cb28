// fetch_until: the one helper of this module that waits.
//
// For programs that start together and cannot go on without each other's metadata.
#pragma once

#include <towpath/rendezvous/rendezvous.h>

namespace towpath::rendezvous {

/// The metadata of `name`, asked for again and again until somebody has published it. Makes
/// progress on `rendezvous` meanwhile, so its callbacks run. Looks at `clock` at least every 10 ms
/// of real time. Errors: timed_out (its cause is the last answer, whose hint it reports); whatever
/// else a fetch fails with, at once. Thread: the one that uses `rendezvous`.
Result<Bytes> fetch_until(Rendezvous& rendezvous, const MetadataName& name, run::Deadline deadline,
                          const Clock& clock);

}  // namespace towpath::rendezvous
