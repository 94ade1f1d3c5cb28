// Where PEs that make a team by an identifier find each other.
#pragma once

namespace towpath::nvshmem {

/// Collective, once for each job: its memory.
void prepare_rendezvous();

}  // namespace towpath::nvshmem
