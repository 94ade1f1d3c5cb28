// Copies of the host driver, made as a GPU's copy engine makes them: word by word, while others may
// write what is read or read what is written. Who races one gets old words or new ones, and it is
// no data race ([intro.races] of C++): each access is a relaxed atomic one. kv::TieredCache counts
// on that: a slot is written anew while its old bytes are on their way down, where they are
// dropped. Thread: any.
#pragma once

#include <towpath/device/values.h>

namespace towpath::device {

/// `what` is checked, and its ranges do not overlap.
void copy_bytes(const Copy& what);

}  // namespace towpath::device
